#include "orchestrator/engine/container.h"

#include <algorithm>

#include "tests/support/catch.h"

using namespace sweep;

namespace {

const std::string kDigest = "sha256:" + std::string(64, 'c');

plan::Job job() {
  plan::Job job;
  job.id = "0123456789ab";
  job.entry = "entry";
  job.framework = "sglang";
  job.image = "example/image:tag@" + kDigest;
  job.gpus = 8;
  return job;
}

diag::Result<engine::Launch> contained(const plan::Job& job, const std::string& runtime) {
  engine::Launch launch;
  launch.command = {.argv = {"python3", "-m", "sglang.launch_server"},
                    .environment = {{"HF_TOKEN", "secret"}},
                    .output = "/runs/r 1/engine.log"};
  return engine::in_container(
      launch,
      {.job = job, .model_folder = "/models/m", .kernel_library = {}, .program_folder = {}, .run_folder = "/runs/r 1"},
      runtime);
}

bool has_part(const std::vector<std::string>& argv, std::vector<std::string> part) {
  return std::search(argv.begin(), argv.end(), part.begin(), part.end()) != argv.end();
}

}  // namespace

TEST_CASE("container: docker runs the engine's own command, with model, run folder, network and GPUs of the host") {
  const auto launch = contained(job(), "docker").value();
  const auto& argv = launch.command.argv;
  const std::string& name = launch.container->name;
  CHECK(name.starts_with("sweepctl-0123456789ab-"));
  CHECK(has_part(argv, {"docker", "run", "--rm", "--name", name, "--network", "host"}));
  CHECK(has_part(argv, {"--volume", "/models/m:/models/m:ro", "--volume", "/runs/r 1:/runs/r 1", "--gpus", "all"}));
  CHECK(has_part(argv, {"--entrypoint", "python3", "example/image:tag@" + kDigest, "-m", "sglang.launch_server"}));
  CHECK(launch.container->stop->argv == std::vector<std::string>{"docker", "stop", "--time", "10", name});
  CHECK(contained(job(), "docker").value().container->name == name);
}

TEST_CASE("container: a snapshot of a hub's cache is mounted with the blobs that it links to") {
  const auto launch = engine::in_container({.command = {.argv = {"vllm"}}},
                                           {.job = job(),
                                            .model_folder = "/hub/models--a--b/snapshots/0123",
                                            .kernel_library = {},
                                            .program_folder = {},
                                            .run_folder = "/runs/r"},
                                           "docker");
  CHECK(has_part(launch->command.argv, {"--volume", "/hub/models--a--b:/hub/models--a--b:ro"}));
}

TEST_CASE("container: values of variables are passed on, not written on the command line") {
  for (const char* runtime : {"docker", "podman", "enroot"}) {
    const auto launch = contained(job(), runtime).value();
    CHECK(has_part(launch.command.argv, {"--env", "HF_TOKEN"}));
    for (const std::string& argument : launch.command.argv) CHECK_FALSE(contains(argument, "secret"));
    CHECK(launch.command.environment.front().second == "secret");
  }
}

TEST_CASE("container: GPUs are given in the way of the runtime and the vendor") {
  CHECK(has_part(contained(job(), "podman").value().command.argv, {"--device", "nvidia.com/gpu=all"}));
  auto amd = job();
  amd.framework = "atom";
  CHECK(has_part(contained(amd, "docker").value().command.argv, {"--device", "/dev/kfd", "--device", "/dev/dri"}));
  auto none = job();
  none.gpus = 0;
  CHECK_FALSE(has_part(contained(none, "docker").value().command.argv, {"--gpus"}));
}

TEST_CASE("container: enroot imports the image, and its container is a process of ours") {
  const auto launch = contained(job(), "enroot").value();
  CHECK(has_part(launch.command.argv, {"enroot", "start", "--rw"}));
  CHECK(has_part(launch.command.argv, {launch.container->name, "python3", "-m", "sglang.launch_server"}));
  CHECK_FALSE(launch.container->stop.has_value());
  CHECK(has_part(launch.container->prepare[1].argv,
                 {"enroot", "import", "--output", "/runs/r 1/image.sqsh", "docker://" + job().image}));
}

TEST_CASE("container: without a runtime or an image there is none") {
  const auto rule_of = [](const diag::Result<engine::Launch>& launch) {
    return launch ? std::string_view("launched") : diag::rule_info(launch.error().rule).slug;
  };
  CHECK(rule_of(contained(job(), "")) == "engine/no-container-runtime");
  auto none = job();
  none.image.clear();
  CHECK(rule_of(contained(none, "docker")) == "engine/no-container-runtime");
  CHECK(rule_of(contained(job(), "docker")) == "launched");
}

TEST_CASE("container: a digest is taken from a reference or from what a runtime prints") {
  CHECK(engine::digest_in("[\"example/image@" + kDigest + "\"]\n") == kDigest);
  CHECK(engine::digest_in("example/image:tag").empty());
  CHECK(engine::digest_in("sha256:abc").empty());
  CHECK(engine::digest_in("sha256:" + std::string(64, 'Z')).empty());
}
