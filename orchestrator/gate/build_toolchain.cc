#include "orchestrator/gate/build_toolchain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/kernels.h"
#include "orchestrator/exec/process.h"

namespace sweep::gate {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string compiler_program() {
  // ./sweepctl names the compiler it built with where "c++" is missing or too old.
  for (const char* name : {"CXX", "SWEEPCTL_CXX"})
    if (std::string named = variable(name); !named.empty()) return named;
  return "c++";
}

// What `program --version` prints.
diag::Result<std::string> version_output(const std::string& program, const std::stop_token& stop) {
  const auto folder = base::TempDir::create();
  if (!folder) return diag::fail(rule::file_unwritable, folder.error().text());
  const exec::CommandSpec command{.argv = {program, "--version"}, .output = folder->path() / "version"};
  const auto status = exec::run(command, std::chrono::seconds(30), stop);
  if (!status) return diag::fail(status.error());
  auto text = base::read_file(command.output);
  if (!status->ok() || !text)
    return diag::fail(rule::kernels_build_failed, fmt::format("\"{} --version\" failed", program));
  return std::move(*text);
}

std::string version_text(const CudaVersion& version) {
  return fmt::format("{}.{}", version.major, version.minor);
}

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

// The folders cuda and cuda-12.9 of `root` as numbers: {12, 9}; the link "cuda" is the administrator's choice, so
// first.
std::vector<fs::path> installed_toolkits(const fs::path& root) {
  std::vector<std::pair<CudaVersion, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator item(root, error), end; !error && item != end; item.increment(error)) {
    const std::string name = item->path().filename().string();
    constexpr std::string_view kPrefix = "cuda";
    if (!name.starts_with(kPrefix)) continue;
    CudaVersion version{.major = 1 << 20};
    if (name != kPrefix) {
      version = {};
      const char* last = name.data() + name.size();
      const auto major = std::from_chars(name.data() + std::min(name.size(), kPrefix.size() + 1), last, version.major);
      if (major.ec != std::errc()) continue;
      if (major.ptr != last) std::from_chars(major.ptr + 1, last, version.minor);
    }
    found.emplace_back(version, item->path() / "bin");
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  std::vector<fs::path> folders;
  folders.reserve(found.size());
  for (auto& [version, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

constexpr std::string_view kHowToGet =
    "install NVIDIA's packages cuda-nvcc-13-0 and cuda-cudart-dev-13-0: on Debian and Ubuntu they are in the "
    "repository "
    "that https://developer.download.nvidia.com/compute/cuda/repos/DISTRIBUTION/x86_64/cuda-keyring_1.1-1_all.deb adds "
    "(DISTRIBUTION: debian12, ubuntu2204, ubuntu2404); or name another nvcc with CUDACXX=/path/to/nvcc";

}  // namespace

NvccPlaces nvcc_places() {
  NvccPlaces places{.named = variable("CUDACXX"), .folders = {}};
  const std::string path = variable("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin) places.folders.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = variable(name); !home.empty()) places.folders.push_back(fs::path(home) / "bin");
  for (fs::path& folder : installed_toolkits("/usr/local")) places.folders.push_back(std::move(folder));
  return places;
}

std::optional<Nvcc> parse_nvcc_version(std::string_view output) {
  constexpr std::string_view kVersionMark = ", V";
  const size_t mark = output.find(kVersionMark);
  if (mark == std::string_view::npos || output.find("nvcc") == std::string_view::npos) return std::nullopt;
  Nvcc nvcc;
  const char* at = output.data() + mark + kVersionMark.size();
  const char* end = output.data() + output.size();
  for (int* part : {&nvcc.version.major, &nvcc.version.minor, &nvcc.version.patch}) {
    const auto [next, error] = std::from_chars(at, end, *part);
    if (error != std::errc()) return std::nullopt;
    at = next != end && *next == '.' ? next + 1 : next;
  }
  nvcc.text = fmt::format("nvcc {}.{}", version_text(nvcc.version), nvcc.version.patch);
  constexpr std::string_view kBuildMark = "\nBuild ";
  if (const size_t build = output.find(kBuildMark); build != std::string_view::npos) {
    const std::string_view rest = output.substr(build + kBuildMark.size());
    nvcc.text += fmt::format(" ({})", rest.substr(0, rest.find('\n')));
  }
  return nvcc;
}

diag::Result<Nvcc> find_nvcc(Arch arch, const NvccPlaces& places, const std::stop_token& stop) {
  const ArchInfo& info = arch_info(arch);
  std::vector<fs::path> candidates;
  if (!places.named.empty()) {
    candidates.push_back(places.named);
  } else {
    for (const fs::path& folder : places.folders)
      if (is_program(folder / "nvcc")) candidates.push_back(folder / "nvcc");
  }
  std::string rejected;
  for (const fs::path& program : candidates) {
    auto output = version_output(program.string(), stop);
    if (!output && stop.stop_requested()) return diag::fail(std::move(output).error());
    auto nvcc = output ? parse_nvcc_version(*output) : std::nullopt;
    if (nvcc && nvcc->version >= info.oldest_nvcc) {
      nvcc->program = program;
      return std::move(*nvcc);
    }
    rejected += fmt::format("{}\"{}\" {}", rejected.empty() ? "" : ", ", program.string(),
                            nvcc ? "is " + version_text(nvcc->version) : "does not say its version");
  }
  return diag::fail(
      rule::kernels_no_nvcc,
      fmt::format("kernels for {} ({}) need NVIDIA's compiler nvcc {} or newer; {}", info.name, info.runs_on,
                  version_text(info.oldest_nvcc),
                  rejected.empty() ? "none was found in PATH, CUDA_HOME, CUDA_PATH and /usr/local/cuda*" : rejected),
      std::string(kHowToGet));
}

diag::Result<Toolchain> find_toolchain(Arch arch, const std::stop_token& stop) {
  Toolchain toolchain{.compiler = compiler_program(), .compiler_version = {}, .nvcc = {}};
  const auto version = version_output(toolchain.compiler, stop);
  if (!version) return diag::fail(version.error());
  toolchain.compiler_version = version->substr(0, version->find('\n'));
  if (is_cuda(arch)) {
    auto nvcc = find_nvcc(arch, nvcc_places(), stop);
    if (!nvcc) return diag::fail(std::move(nvcc).error());
    toolchain.nvcc = std::move(*nvcc);
  }
  return toolchain;
}

}  // namespace sweep::gate
