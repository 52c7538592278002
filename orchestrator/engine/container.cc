#include "orchestrator/engine/container.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/engine/decode_log_line.h"
#include "orchestrator/exec/capture.h"

namespace sweep::engine {

namespace {

namespace rule = diag::rule;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kRuntimes{"docker", "podman", "enroot"};
constexpr std::chrono::minutes kImport{60};  // an image of some tens of gigabytes
constexpr std::chrono::seconds kOfOneCommand{30};
constexpr std::string_view kStopSeconds = "10";
constexpr std::string_view kNamePrefix = "sweepctl-";

bool is_in_path(std::string_view program) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    if (!folder.empty() && ::access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// One container a run folder: a later run of the same folder finds it again, and no other run has its name.
std::string name_of(const plan::Job& job, const fs::path& run_folder) {
  // FNV-1a, 64 bits.
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : run_folder.string()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{}{}-{:016x}", kNamePrefix, job.id, hash);
}

std::vector<exec::CommandSpec> removal_of(const std::string& runtime, const std::string& name) {
  if (runtime == "enroot") return {{.argv = {"enroot", "remove", "--force", name}}};
  return {{.argv = {runtime, "rm", "--force", name}}};
}

std::vector<std::string> gpu_options(std::string_view framework, const std::string& runtime, const plan::Job& job) {
  if (job.gpus == 0) return {};
  if (framework == "atom") return {"--device", "/dev/kfd", "--device", "/dev/dri", "--group-add", "video"};
  if (runtime == "podman") return {"--device", "nvidia.com/gpu=all"};
  return {"--gpus", "all"};
}

// What must be visible inside for the model to be read: a snapshot of a hub's cache links to the blobs beside it.
fs::path mount_of(const fs::path& model) {
  return model.parent_path().filename() == "snapshots" ? model.parent_path().parent_path() : model;
}

// docker and podman agree on these options.
exec::CommandSpec run_command(const Launch& launch, const LaunchRequest& request, const Container& container) {
  const std::string model = mount_of(request.model_folder).string();
  const std::string folder = request.run_folder.string();
  exec::CommandSpec command{
      .argv = {container.runtime, "run", "--rm", "--name", container.name, "--network", "host", "--ipc", "host",
               "--volume", fmt::format("{0}:{0}:ro", model), "--volume", fmt::format("{0}:{0}", folder)},
      .environment = launch.command.environment,
      .output = launch.command.output,
      .unset = {}};
  const auto gpus = gpu_options(request.job.framework, container.runtime, request.job);
  command.argv.insert(command.argv.end(), gpus.begin(), gpus.end());
  if (request.job.gpus > 0) command.argv.insert(command.argv.end(), {"--env", "CUDA_VISIBLE_DEVICES"});  // if it is set
  for (const auto& [name, value] : launch.command.environment)
    command.argv.insert(command.argv.end(), {"--env", name});  // the value is that of our side: not for all to read
  // An image's own entry point would take the command for its arguments.
  command.argv.insert(command.argv.end(), {"--entrypoint", launch.command.argv.front(), request.job.image});
  command.argv.insert(command.argv.end(), launch.command.argv.begin() + 1, launch.command.argv.end());
  return command;
}

void use_docker(Launch& launch, const LaunchRequest& request, Container& container) {
  const std::string& image = request.job.image;
  const auto command = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), container.runtime);
    return exec::CommandSpec{.argv = std::move(arguments)};
  };
  container.prepare = {command({"pull", "--quiet", image})};
  container.stop = command({"stop", "--time", std::string(kStopSeconds), container.name});
  container.pid_of_first = command({"inspect", "--format", "{{.State.Pid}}", container.name});
  container.digest_of_image = command({"image", "inspect", "--format", "{{json .RepoDigests}}", image});
  launch.command = run_command(launch, request, container);
}

// enroot has no daemon: its container is processes of ours, which end with the process group. An image is imported into
// a file beside the run, and made into a root file system of the container's name.
void use_enroot(Launch& launch, const LaunchRequest& request, Container& container) {
  const std::string model = mount_of(request.model_folder).string();
  const std::string folder = request.run_folder.string();
  const std::string file = (request.run_folder / "image.sqsh").string();
  const auto command = [&](std::vector<std::string> arguments) {
    return exec::CommandSpec{.argv = std::move(arguments)};
  };
  container.prepare = {command({"rm", "-f", file}),
                       command({"enroot", "import", "--output", file, "docker://" + request.job.image}),
                       command({"enroot", "create", "--name", container.name, file})};
  exec::CommandSpec run{.argv = {"enroot", "start", "--rw", "--mount", fmt::format("{0}:{0}", model), "--mount",
                                 fmt::format("{0}:{0}", folder)},
                        .environment = launch.command.environment,
                        .output = launch.command.output,
                        .unset = {}};
  for (const auto& [name, value] : launch.command.environment) run.argv.insert(run.argv.end(), {"--env", name});
  run.argv.push_back(container.name);
  run.argv.insert(run.argv.end(), launch.command.argv.begin(), launch.command.argv.end());
  launch.command = std::move(run);
}

}  // namespace

std::string container_runtime() {
  const auto found = std::find_if(kRuntimes.begin(), kRuntimes.end(), is_in_path);
  return found == kRuntimes.end() ? std::string() : std::string(*found);
}

diag::Result<Launch> in_container(Launch launch, const LaunchRequest& request, const std::string& runtime) {
  if (runtime.empty())
    return diag::fail(rule::engine_no_container_runtime, "none of docker, podman and enroot is in PATH",
                      "install one of them, or use --launcher local inside the image");
  if (request.job.image.empty())
    return diag::fail(diag::make_at(rule::engine_no_container_runtime, request.job.where,
                                    fmt::format("\"{}\" names no image to run in a container", request.job.entry),
                                    "use --launcher local"));
  const std::string name = name_of(request.job, request.run_folder);
  Container container{.runtime = runtime,
                      .name = name,
                      .prepare = {},
                      .remove = removal_of(runtime, name),
                      .stop = std::nullopt,
                      .pid_of_first = std::nullopt,
                      .digest_of_image = std::nullopt};
  if (runtime == "enroot")
    use_enroot(launch, request, container);
  else
    use_docker(launch, request, container);
  launch.container = std::move(container);
  return launch;
}

diag::Result<std::string> prepare_container(const Container& container, const std::stop_token& stop) {
  remove_container(container);
  const auto digest = [&]() -> std::optional<std::string> {
    if (!container.digest_of_image) return std::nullopt;
    const auto printed = exec::capture(*container.digest_of_image, {}, {.time = kOfOneCommand}, stop);
    return printed && printed->status.ok() ? std::optional(digest_in(printed->output)) : std::nullopt;
  };
  if (auto known = digest()) return std::move(*known);
  for (const exec::CommandSpec& command : container.prepare) {
    const auto done = exec::capture(command, {}, {.time = kImport}, stop);
    if (!done) return diag::fail(done.error());
    if (!done->status.ok())
      return diag::fail(rule::engine_container_failed,
                        fmt::format("`{}` ended with {}: {}", exec::quoted_for_shell(command), done->status.text(),
                                    printable(done->errors)),
                        "see what the runtime says");
  }
  return digest().value_or("");
}

std::optional<pid_t> first_process(const Container& container) {
  if (!container.pid_of_first) return std::nullopt;
  const auto printed = exec::capture(*container.pid_of_first, {}, {.time = kOfOneCommand}, {});
  if (!printed || !printed->status.ok()) return std::nullopt;
  const auto pid = static_cast<pid_t>(std::strtol(printed->output.c_str(), nullptr, 10));
  return pid > 1 ? std::optional(pid) : std::nullopt;
}

void stop_container(const Container& container) {
  if (container.stop) (void)exec::capture(*container.stop, {}, {.time = kOfOneCommand}, {});
}

void remove_container(const Container& container) {
  for (const exec::CommandSpec& command : container.remove)
    (void)exec::capture(command, {}, {.time = kOfOneCommand}, {});
}

void remove_container(const std::string& runtime, const std::string& name) {
  const bool known = std::find(kRuntimes.begin(), kRuntimes.end(), runtime) != kRuntimes.end();
  if (!known || !name.starts_with(kNamePrefix)) return;
  for (const exec::CommandSpec& command : removal_of(runtime, name))
    (void)exec::capture(command, {}, {.time = kOfOneCommand}, {});
}

std::string digest_in(std::string_view text) {
  constexpr std::string_view kMark = "sha256:";
  constexpr size_t kDigits = 64;
  const size_t at = text.find(kMark);
  if (at == std::string_view::npos) return {};
  const std::string_view digits = text.substr(at + kMark.size(), kDigits);
  const bool whole = digits.size() == kDigits && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return whole ? std::string(text.substr(at, kMark.size() + kDigits)) : std::string();
}

}  // namespace sweep::engine
