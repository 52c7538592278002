#include "orchestrator/engine/adapter.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "orchestrator/engine/command.h"

namespace sweep::engine {

namespace {

diag::Result<Launch> render_embedded(const LaunchRequest& request) {
  const plan::Job& job = request.job;
  Launch launch;
  launch.served_model = job.model;
  launch.port_file = request.run_folder / "engine.port";
  std::vector<std::string>& argv = launch.command.argv;
  argv = {(request.program_folder / "sweepctl-embedded").string(),
          "serve",
          "--with-parent",
          "--model",
          request.model_folder.string(),
          "--served-model-name",
          job.model,
          "--kernels",
          request.kernel_library.string(),
          "--port-file",
          launch.port_file->string(),
          "--num-draft-tokens",
          std::to_string(job.num_draft_tokens),
          "--max-model-len",
          std::to_string(job.isl + job.osl + 256),
          "--seed",
          std::to_string(request.seed),
          "--device",
          job.gpus > 0 ? "cuda" : "cpu"};
  if (job.gpus > 0) argv.insert(argv.end(), {"--tp-size", std::to_string(job.tp)});
  const auto length = forced_length(job);
  if (!length) return diag::fail(length.error());
  if (job.acceptance.source == plan::AcceptanceSource::kMeasured)
    argv.insert(argv.end(), {"--acceptance", "measured"});
  else if (*length)
    argv.insert(argv.end(), {"--acceptance", "explicit", "--acceptance-length", decimal(**length)});
  add_flags(argv, flags_without(job, {"num-draft-tokens", "tp-size"}));
  launch.command.environment = recipe_environment(job);
  launch.command.output = request.run_folder / "engine.log";
  return launch;
}

Framework embedded_framework() {
  return {.name = "embedded",
          .endpoints = {.counters = "/metrics", .statistics = "", .version = "", .info = "/server_info"},
          .uses_bundled_kernels = true,
          .draws_per_step = false,
          .takes_token_ids = true,
          .render = render_embedded};
}

// What the peer calls an engine where we call it otherwise.
constexpr std::array<std::pair<std::string_view, std::string_view>, 1> kOtherNames{{{"trt", "trtllm"}}};

}  // namespace

std::span<const Framework> frameworks() {
  static const std::array all{embedded_framework(), sglang_framework(), vllm_framework(), trtllm_framework(),
                              atom_framework()};
  return all;
}

const Framework* find_framework(std::string_view name) {
  for (const auto& [other, ours] : kOtherNames)
    if (name == other) name = ours;
  for (const Framework& framework : frameworks())
    if (framework.name == name) return &framework;
  return nullptr;
}

}  // namespace sweep::engine
