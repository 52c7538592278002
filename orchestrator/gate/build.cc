#include "orchestrator/gate/build.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/kernels.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/exec/process.h"
#include "orchestrator/gate/build_sources.h"
#include "orchestrator/gate/build_toolchain.h"

namespace sweep::gate {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;

constexpr std::chrono::minutes kConfigureLimit{5};
constexpr std::chrono::minutes kCompileLimit{30};
constexpr std::string_view kBuildType = "Release";
constexpr int kSchemaVersion = 1;

// A file that a build leaves: its name, and where KernelBuild keeps its path and digest.
struct Artifact {
  std::string_view key;  // in build.json
  std::string name;
  fs::path KernelBuild::*path;
  std::string KernelBuild::*sha256;
};
std::vector<Artifact> artifacts(Arch arch) {
  const std::string_view name = arch_info(arch).name;
  std::vector<Artifact> all{
      {"library", fmt::format("libflashmla-{}.so", name), &KernelBuild::library, &KernelBuild::library_sha256},
      {"baseline", fmt::format("libflashmla-{}-padded64.so", name), &KernelBuild::baseline,
       &KernelBuild::baseline_sha256}};
  if (is_cuda(arch)) {
    all.push_back({"plain_read", fmt::format("flashmla-plain-read-{}.cubin", name), &KernelBuild::plain_read,
                   &KernelBuild::plain_read_sha256});
    all.push_back({"resources", fmt::format("flashmla-{}-resources.json", name), &KernelBuild::resources,
                   &KernelBuild::resources_sha256});
  }
  return all;
}

// Records what was built; the folder is complete if and only if this file is there.
constexpr const char* kRecordName = "build.json";

// Fills paths and digests from a finished folder; nothing if it is absent or its libraries are not as recorded.
bool take_from_cache(KernelBuild& build, diag::Diagnostics& diagnostics) {
  const auto text = base::read_file(build.folder / kRecordName);
  if (!text) return false;
  const auto record = nlohmann::json::parse(*text, nullptr, false);
  const auto recorded = [&](const std::string& key) {
    const auto found = record.is_object() ? record.find(key) : record.end();
    return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  for (const Artifact& artifact : artifacts(build.arch)) {
    const fs::path path = build.folder / artifact.name;
    const std::string expected = recorded(fmt::format("{}_sha256", artifact.key));
    const auto actual = digest::sha256_file(path);
    if (actual && *actual == expected) {
      build.*artifact.path = path;
      build.*artifact.sha256 = expected;
      continue;
    }
    diagnostics.add(diag::make(rule::kernels_artifact_changed,
                               fmt::format("\"{}\" is not what was built: SHA-256 expected {}, found {}", path.string(),
                                           expected, actual ? *actual : "none (" + actual.error().text() + ")"),
                               "nothing to do: it is built again from the sources"));
    return false;
  }
  return true;
}

// What the build says of kernels that the compiler could not keep in registers ("name: N bytes of spill stores, ...").
std::vector<std::string> spilling_kernels(std::string_view log) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    std::string_view line = log.substr(begin, end - begin);
    begin = end + 1;
    if (line.find(" bytes of spill stores") == std::string_view::npos) continue;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    lines.emplace_back(line);
  }
  return lines;
}

diag::Result<base::Done> run_step(const exec::CommandSpec& command, std::chrono::milliseconds limit,
                                  const std::stop_token& stop) {
  const auto status = exec::run(command, limit, stop);
  if (!status) return diag::fail(status.error());
  if (status->ok()) return base::Done{};
  diag::Diagnostic failure = diag::make(
      rule::kernels_build_failed, fmt::format("\"{}\" ended with {}", exec::quoted_for_shell(command), status->text()),
      fmt::format("read {}", command.output.string()));
  if (const auto log = base::read_file(command.output))
    for (std::string& line : spilling_kernels(*log)) failure.notes.push_back({std::move(line), std::nullopt});
  return diag::fail(std::move(failure));
}

diag::Result<base::Done> compile(const BuildRequest& request, const KernelBuild& build, const Toolchain& tools,
                                 const fs::path& work, const std::stop_token& stop) {
  const fs::path log = request.cache / "kernels" / fmt::format("{}.log", build.folder.filename().string());
  std::error_code ignored;
  fs::remove(log, ignored);
  exec::CommandSpec configure{
      .argv = {"cmake", "-S", request.sources.string(), "-B", work.string(),
               fmt::format("-DCMAKE_BUILD_TYPE={}", kBuildType), fmt::format("-DCMAKE_CXX_COMPILER={}", tools.compiler),
               fmt::format("-DFLASHMLA_ARCH={}", arch_info(request.arch).name)},
      .output = log};
  if (tools.nvcc) configure.argv.push_back(fmt::format("-DCMAKE_CUDA_COMPILER={}", tools.nvcc->program.string()));
  if (auto done = run_step(configure, kConfigureLimit, stop); !done) return done;
  const exec::CommandSpec make{.argv = {"cmake", "--build", work.string(), "--parallel",
                                        std::to_string(std::max(1U, std::thread::hardware_concurrency()))},
                               .output = log};
  return run_step(make, kCompileLimit, stop);
}

// Moves what was made into a new folder and gives it its final name in one step.
diag::Result<base::Done> publish(KernelBuild& build, const fs::path& work, const fs::path& staging) {
  std::error_code error;
  fs::create_directories(staging, error);
  for (const Artifact& artifact : artifacts(build.arch)) {
    fs::copy_file(work / artifact.name, staging / artifact.name, error);
    if (error)
      return diag::fail(rule::kernels_build_failed,
                        fmt::format("the build made no \"{}\": {}", artifact.name, error.message()));
    const auto digest = digest::sha256_file(staging / artifact.name);
    if (!digest) return diag::fail(rule::file_unreadable, digest.error().text());
    build.*artifact.path = build.folder / artifact.name;
    build.*artifact.sha256 = *digest;
  }
  const auto written = base::write_file_atomic(staging / kRecordName, to_json(build).dump(2) + "\n");
  if (!written) return diag::fail(rule::file_unwritable, written.error().text());
  fs::remove_all(build.folder, error);
  fs::rename(staging, build.folder, error);
  if (error)
    return diag::fail(rule::file_unwritable,
                      fmt::format("cannot put the kernels into {}: {}", build.folder.string(), error.message()));
  return base::Done{};
}

diag::Result<base::FileDescriptor> lock_folder(const fs::path& folder, const Progress& progress,
                                               const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kPollInterval{50};
  base::FileDescriptor lock(::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock.is_open())
    return diag::fail(rule::file_unwritable, base::IoError{"open", folder / ".lock", errno}.text(),
                      "name another folder with SWEEPCTL_CACHE");
  bool told = false;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (stop.stop_requested())
      return diag::fail(rule::exec_interrupted, "interrupted while waiting for another kernel build");
    if (!std::exchange(told, true)) progress("waiting for another process that builds kernels");
    std::this_thread::sleep_for(kPollInterval);
  }
  return lock;
}

// Folders of builders that were killed. Called under the lock, so nobody works in them.
void remove_abandoned_work(const fs::path& parent) {
  std::error_code error;
  std::vector<fs::path> abandoned;
  for (fs::directory_iterator item(parent, error), end; !error && item != end; item.increment(error))
    if (item->path().filename().string().starts_with("sweepctl-")) abandoned.push_back(item->path());
  for (const fs::path& path : abandoned) fs::remove_all(path, error);
}

// Of what decides the bytes that are built.
std::string content_id(const KernelBuild& build) {
  std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n", kSchemaVersion, arch_info(build.arch).name, kBuildType,
                                 build.compiler, build.device_compiler, build.source_sha256);
  for (const char* name : {"CXXFLAGS", "LDFLAGS", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"})
    if (const char* value = std::getenv(name); value != nullptr) text += fmt::format("{}={}\n", name, value);
  return digest::sha256_hex(text).substr(0, 16);
}

}  // namespace

diag::Result<KernelBuild> build_kernels(const BuildRequest& request, const Progress& progress,
                                        const std::stop_token& stop, diag::Diagnostics& diagnostics) {
  const ArchInfo& arch = arch_info(request.arch);
  const int64_t begin = base::monotonic_ns();
  KernelBuild build{.arch = request.arch};
  auto sources = source_digest(request.arch, request.sources);
  if (!sources) return diag::fail(std::move(sources).error());
  build.source_sha256 = *sources;
  auto tools = find_toolchain(request.arch, stop);
  if (!tools) return diag::fail(std::move(tools).error());
  build.compiler = tools->compiler_version;
  if (tools->nvcc) build.device_compiler = tools->nvcc->text;
  build.content_id = content_id(build);
  const fs::path parent = request.cache / "kernels";
  build.folder = parent / fmt::format("{}-{}", arch.name, build.content_id);

  if (auto made = base::make_directories(parent); !made)
    return diag::fail(rule::file_unwritable, made.error().text(), "name another folder with SWEEPCTL_CACHE");
  // One builder at a time: a second one waits and then finds the first one's result.
  const auto lock = lock_folder(parent, progress, stop);
  if (!lock) return diag::fail(lock.error());
  remove_abandoned_work(parent);

  build.found = take_from_cache(build, diagnostics);
  if (!build.found) {
    progress(fmt::format("compiling the kernels for {}", arch.name));
    auto work = base::TempDir::create(parent);
    if (!work) return diag::fail(rule::file_unwritable, work.error().text());
    if (auto done = compile(request, build, *tools, work->path() / "make", stop); !done)
      return diag::fail(std::move(done).error());
    if (auto done = publish(build, work->path() / "make", work->path() / "made"); !done)
      return diag::fail(std::move(done).error());
  }
  build.seconds = static_cast<double>(base::monotonic_ns() - begin) * 1e-9;
  return build;
}

nlohmann::json to_json(const KernelBuild& build) {
  nlohmann::json document{{"schema_version", kSchemaVersion},
                          {"arch", arch_info(build.arch).name},
                          {"hardware", arch_info(build.arch).hardware},
                          {"content_id", build.content_id},
                          {"source_sha256", build.source_sha256},
                          {"compiler", build.compiler},
                          {"device_compiler", nullptr},
                          {"plain_read", nullptr},
                          {"resources", nullptr}};
  if (!build.device_compiler.empty()) document["device_compiler"] = build.device_compiler;
  for (const Artifact& artifact : artifacts(build.arch)) {
    document[std::string(artifact.key)] = (build.*artifact.path).string();
    document[fmt::format("{}_sha256", artifact.key)] = build.*artifact.sha256;
  }
  return document;
}

}  // namespace sweep::gate
