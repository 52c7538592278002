#include "orchestrator/engine/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace sweep::engine {

namespace {

std::vector<std::pair<std::string, std::string>> recipe_environment(const plan::Job& job) {
  std::vector<std::pair<std::string, std::string>> environment;
  for (const plan::Setting& setting : job.environment) environment.emplace_back(setting.name, setting.value);
  return environment;
}

// `--name value`; for a switch a bare `--name` or nothing, as command-line parsers want it.
void add_flags(std::vector<std::string>& argv, const std::vector<plan::Setting>& flags) {
  for (const plan::Setting& flag : flags) {
    if (flag.is_switch && flag.value == "false") continue;
    argv.push_back("--" + flag.name);
    if (!flag.is_switch) argv.push_back(flag.value);
  }
}

// The recipe's flags without those that the adapter sets itself, from values that validation has bound to the recipe.
std::vector<plan::Setting> without(const std::vector<plan::Setting>& flags,
                                   std::span<const std::string_view> set_here) {
  std::vector<plan::Setting> rest;
  std::copy_if(flags.begin(), flags.end(), std::back_inserter(rest), [&](const plan::Setting& flag) {
    return std::find(set_here.begin(), set_here.end(), flag.name) == set_here.end();
  });
  return rest;
}

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
  if (job.acceptance.source == plan::AcceptanceSource::kMeasured) {
    argv.insert(argv.end(), {"--acceptance", "measured"});
  } else if (job.acceptance.length) {
    argv.insert(argv.end(),
                {"--acceptance", "explicit", "--acceptance-length", fmt::format("{}", *job.acceptance.length)});
  }
  constexpr std::array<std::string_view, 2> kSetHere{"num-draft-tokens", "tp-size"};
  add_flags(argv, without(job.engine_flags, kSetHere));
  launch.command.environment = recipe_environment(job);
  launch.command.output = request.run_folder / "engine.log";
  return launch;
}

// Facts: SGLang's forced acceptance is set by environment; the length counts the bonus token, and a fixed token id
// would stall the detokenizer, so real draft tokens are committed.
diag::Result<Launch> render_sglang(const LaunchRequest& request) {
  constexpr int kPort = 30000;
  const plan::Job& job = request.job;
  Launch launch;
  launch.served_model = job.model;
  launch.base_url = fmt::format("http://127.0.0.1:{}", kPort);
  std::vector<std::string>& argv = launch.command.argv;
  argv = {"python3",
          "-m",
          "sglang.launch_server",
          "--model-path",
          request.model_folder.string(),
          "--served-model-name",
          job.model,
          "--revision",
          job.revision,
          "--host",
          "127.0.0.1",
          "--port",
          std::to_string(kPort)};
  constexpr std::array<std::string_view, 5> kSetHere{"model-path", "served-model-name", "revision", "host", "port"};
  add_flags(argv, without(job.engine_flags, kSetHere));
  launch.command.environment = recipe_environment(job);
  if (job.acceptance.source != plan::AcceptanceSource::kMeasured && job.acceptance.length) {
    launch.command.environment.emplace_back("SGLANG_SIMULATE_ACC_LEN", fmt::format("{}", *job.acceptance.length));
    launch.command.environment.emplace_back("SGLANG_SIMULATE_ACC_METHOD", "match-expected");
    launch.command.environment.emplace_back("SGLANG_SIMULATE_ACC_TOKEN_MODE", "real-draft-token");
  }
  launch.command.output = request.run_folder / "engine.log";
  return launch;
}

constexpr std::array<Framework, 2> kFrameworks{{
    {.name = "embedded",
     .metrics_prefix = "embedded:",
     .uses_bundled_kernels = true,
     .draws_per_step = false,
     .render = render_embedded},
    {.name = "sglang",
     .metrics_prefix = "",
     .uses_bundled_kernels = false,
     .draws_per_step = true,
     .render = render_sglang},
}};

}  // namespace

std::span<const Framework> frameworks() {
  return kFrameworks;
}

const Framework* find_framework(std::string_view name) {
  for (const Framework& framework : kFrameworks)
    if (framework.name == name) return &framework;
  return nullptr;
}

}  // namespace sweep::engine
