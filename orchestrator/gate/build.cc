#include "orchestrator/gate/build.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
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

namespace sweep::gate {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;

constexpr std::chrono::minutes kConfigureLimit{5};
constexpr std::chrono::minutes kCompileLimit{30};
constexpr std::string_view kBuildType = "Release";
constexpr int kSchemaVersion = 1;

// What goes into the extension; the gate, the oracle, benchmarks and prose do not.
bool is_part_of_extension(const fs::path& relative) {
  const std::string top = relative.begin()->string();
  if (top == "gate" || top == "oracle" || top == "bench") return false;
  const std::string extension = relative.extension().string();
  return extension != ".md";
}

diag::Result<std::string> source_digest(const fs::path& sources) {
  std::error_code error;
  std::map<std::string, std::string> digests;  // sorted by path
  for (auto item = fs::recursive_directory_iterator(sources, error);
       !error && item != fs::recursive_directory_iterator(); item.increment(error)) {
    if (!item->is_regular_file(error)) continue;
    const fs::path relative = fs::relative(item->path(), sources, error);
    if (error || !is_part_of_extension(relative)) continue;
    const auto digest = digest::sha256_file(item->path());
    if (!digest) return diag::fail(rule::file_unreadable, digest.error().text());
    digests.emplace(relative.generic_string(), *digest);
  }
  if (error || !digests.contains("CMakeLists.txt"))
    return diag::fail(rule::kernels_sources_missing, fmt::format("no kernel sources in \"{}\"", sources.string()),
                      "run inside a complete checkout or name one with --root");
  digest::Sha256 hash;
  for (const auto& [path, digest] : digests) hash.update(fmt::format("{} {}\n", path, digest));
  return digest::hex(hash.finish());
}

std::string compiler_program() {
  // ./sweepctl names the compiler it built with where "c++" is missing or too old.
  for (const char* variable : {"CXX", "SWEEPCTL_CXX"})
    if (const char* named = std::getenv(variable); named != nullptr && *named != '\0') return named;
  return "c++";
}

diag::Result<std::string> compiler_version(const std::string& compiler, const std::stop_token& stop) {
  const auto folder = base::TempDir::create();
  if (!folder) return diag::fail(rule::file_unwritable, folder.error().text());
  const exec::CommandSpec command{.argv = {compiler, "--version"}, .output = folder->path() / "version"};
  const auto status = exec::run(command, std::chrono::seconds(30), stop);
  if (!status) return diag::fail(status.error());
  const auto text = base::read_file(command.output);
  if (!status->ok() || !text)
    return diag::fail(rule::kernels_build_failed, fmt::format("\"{} --version\" failed", compiler));
  return text->substr(0, text->find('\n'));
}

struct Names {
  std::string library;
  std::string baseline;
};
Names library_names(Arch arch) {
  const std::string_view name = arch_info(arch).name;
  return {fmt::format("libflashmla-{}.so", name), fmt::format("libflashmla-{}-padded64.so", name)};
}

// Records what was built; the folder is complete if and only if this file is there.
constexpr const char* kRecordName = "build.json";

// Fills paths and digests from a finished folder; nothing if it is absent or its libraries are not as recorded.
bool take_from_cache(KernelBuild& build, diag::Diagnostics& diagnostics) {
  const auto text = base::read_file(build.folder / kRecordName);
  if (!text) return false;
  const auto record = nlohmann::json::parse(*text, nullptr, false);
  const auto recorded = [&](const char* key) {
    const auto found = record.is_object() ? record.find(key) : record.end();
    return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const Names names = library_names(build.arch);
  build.library = build.folder / names.library;
  build.baseline = build.folder / names.baseline;
  build.library_sha256 = recorded("library_sha256");
  build.baseline_sha256 = recorded("baseline_sha256");
  for (const auto& [path, expected] :
       {std::pair(build.library, build.library_sha256), std::pair(build.baseline, build.baseline_sha256)}) {
    const auto actual = digest::sha256_file(path);
    if (actual && *actual == expected) continue;
    diagnostics.add(diag::make(rule::kernels_artifact_changed,
                               fmt::format("\"{}\" is not what was built: SHA-256 expected {}, found {}", path.string(),
                                           expected, actual ? *actual : "none (" + actual.error().text() + ")"),
                               "nothing to do: it is built again from the sources"));
    return false;
  }
  return true;
}

diag::Result<base::Done> run_step(const exec::CommandSpec& command, std::chrono::milliseconds limit,
                                  const std::stop_token& stop) {
  const auto status = exec::run(command, limit, stop);
  if (!status) return diag::fail(status.error());
  if (!status->ok())
    return diag::fail(rule::kernels_build_failed,
                      fmt::format("\"{}\" ended with {}", exec::quoted_for_shell(command), status->text()),
                      fmt::format("read {}", command.output.string()));
  return base::Done{};
}

diag::Result<base::Done> compile(const BuildRequest& request, const KernelBuild& build, const std::string& compiler,
                                 const fs::path& work, const std::stop_token& stop) {
  const fs::path log = request.cache / "kernels" / fmt::format("{}.log", build.folder.filename().string());
  std::error_code ignored;
  fs::remove(log, ignored);
  const exec::CommandSpec configure{
      .argv = {"cmake", "-S", request.sources.string(), "-B", work.string(),
               fmt::format("-DCMAKE_BUILD_TYPE={}", kBuildType), fmt::format("-DCMAKE_CXX_COMPILER={}", compiler),
               fmt::format("-DFLASHMLA_ARCH={}", arch_info(request.arch).name)},
      .output = log};
  if (auto done = run_step(configure, kConfigureLimit, stop); !done) return done;
  const exec::CommandSpec make{.argv = {"cmake", "--build", work.string(), "--parallel",
                                        std::to_string(std::max(1U, std::thread::hardware_concurrency()))},
                               .output = log};
  return run_step(make, kCompileLimit, stop);
}

// Moves both libraries into a new folder and gives it its final name in one step.
diag::Result<base::Done> publish(KernelBuild& build, const fs::path& work, const fs::path& staging) {
  const Names names = library_names(build.arch);
  std::error_code error;
  fs::create_directories(staging, error);
  for (const std::string& name : {names.library, names.baseline}) {
    fs::copy_file(work / name, staging / name, error);
    if (error)
      return diag::fail(rule::kernels_build_failed, fmt::format("the build made no \"{}\": {}", name, error.message()));
  }
  const auto library = digest::sha256_file(staging / names.library);
  const auto baseline = digest::sha256_file(staging / names.baseline);
  if (!library || !baseline) return diag::fail(rule::file_unreadable, (library ? baseline : library).error().text());
  build.library = build.folder / names.library;
  build.library_sha256 = *library;
  build.baseline = build.folder / names.baseline;
  build.baseline_sha256 = *baseline;
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

}  // namespace

diag::Result<KernelBuild> build_kernels(const BuildRequest& request, const Progress& progress,
                                        const std::stop_token& stop, diag::Diagnostics& diagnostics) {
  const ArchInfo& arch = arch_info(request.arch);
  if (!arch.bundled)
    return diag::fail(rule::kernels_arch_not_bundled,
                      fmt::format("this version bundles no kernels for {} ({})", arch.name, arch.runs_on),
                      "use --arch cpu, or a version of the checkout whose kernels/README.md lists the architecture");
  const int64_t begin = base::monotonic_ns();
  KernelBuild build{.arch = request.arch};
  auto sources = source_digest(request.sources);
  if (!sources) return diag::fail(std::move(sources).error());
  build.source_sha256 = *sources;
  const std::string compiler = compiler_program();
  auto version = compiler_version(compiler, stop);
  if (!version) return diag::fail(std::move(version).error());
  build.compiler = *version;
  build.content_id = digest::sha256_hex(fmt::format("{}\n{}\n{}\n{}\n{}\n", kSchemaVersion, arch.name, kBuildType,
                                                    build.compiler, build.source_sha256))
                         .substr(0, 16);
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
    if (auto done = compile(request, build, compiler, work->path() / "make", stop); !done)
      return diag::fail(std::move(done).error());
    if (auto done = publish(build, work->path() / "make", work->path() / "made"); !done)
      return diag::fail(std::move(done).error());
  }
  build.seconds = static_cast<double>(base::monotonic_ns() - begin) * 1e-9;
  return build;
}

nlohmann::json to_json(const KernelBuild& build) {
  return {{"schema_version", kSchemaVersion},
          {"arch", arch_info(build.arch).name},
          {"content_id", build.content_id},
          {"source_sha256", build.source_sha256},
          {"compiler", build.compiler},
          {"library", build.library.string()},
          {"library_sha256", build.library_sha256},
          {"baseline", build.baseline.string()},
          {"baseline_sha256", build.baseline_sha256}};
}

}  // namespace sweep::gate
