// TensorRT-LLM. Facts: docs of trtllm-serve; serve/openai_server.py and llmapi/llm_args.py of TensorRT-LLM.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/engine/command.h"

namespace sweep::engine {

namespace {

constexpr int kUsualPort = 8000;
constexpr std::string_view kOptionsFile = "engine-options.yaml";
constexpr const char* kForced = "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS";

// The variable counts accepted drafts, without the target's own token. The one-model path draws a fraction; the
// two-model path reads a whole number and takes anything else for 0, with no more than a warning.
diag::Result<base::Done> force_acceptance(const plan::Job& job, exec::CommandSpec& command) {
  const auto length = forced_length(job);
  if (!length) return diag::fail(length.error());
  if (!*length) return base::Done{};
  const plan::Setting* flag = find_flag(job, {"speculative_config"});
  if (flag == nullptr)
    return acceptance_unsupported(job, fmt::format("{} has no speculative_config", job.recipe),
                                  "state speculative_config with decoding_type and max_draft_len");
  const auto config = object_in(job, *flag);
  if (!config) return diag::fail(config.error());
  const bool two_models = config->value("eagle3_one_model", nlohmann::json()) == false ||
                          config->value("mtp_eagle_one_model", nlohmann::json()) == false;
  if (two_models && **length != std::floor(**length))
    return acceptance_unsupported(job, "TensorRT-LLM's two-model path takes a fraction for no accepted draft at all",
                                  "use a one-model path, or a whole length");
  command.environment.emplace_back(kForced, decimal(**length - 1));
  return base::Done{};
}

// The recipe's settings as the YAML of --extra_llm_api_options, which JSON is a part of; with the statistics that the
// measured window is read from.
diag::Result<std::string> options_text(const plan::Job& job) {
  std::string text;
  for (const plan::Setting& flag : flags_without(job, {"model", "served_model_name", "host", "port", "revision"})) {
    const auto parsed = nlohmann::json::parse(flag.value, nullptr, false);
    const bool is_plain = !parsed.is_discarded() || flag.is_switch;
    text += fmt::format("{}: {}\n", flag.name,
                        is_plain
                            ? flag.value
                            : nlohmann::json(flag.value).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kStatistics{
      {{"enable_iter_perf_stats", "true"}, {"return_perf_metrics", "true"}, {"perf_metrics_max_requests", "1000"}}};
  for (const auto& [name, value] : kStatistics)
    if (find_flag(job, {name}) == nullptr) text += fmt::format("{}: {}\n", name, value);
  return text;
}

diag::Result<Launch> render(const LaunchRequest& request) {
  const plan::Job& job = request.job;
  const auto port = port_of(job, {"port"}, kUsualPort);
  if (!port) return diag::fail(port.error());
  auto options = options_text(job);
  if (!options) return diag::fail(std::move(options).error());
  Launch launch;
  launch.served_model = job.model;
  launch.base_url = fmt::format("http://{}:{}", kLoopback, *port);
  launch.files = {{request.run_folder / kOptionsFile, std::move(*options)}};
  launch.command.argv = {"trtllm-serve",
                         "serve",
                         request.model_folder.string(),
                         "--served_model_name",
                         job.model,
                         "--host",
                         std::string(kLoopback),
                         "--port",
                         std::to_string(*port),
                         "--backend",
                         "pytorch",
                         "--extra_llm_api_options",
                         launch.files.front().path.string()};
  launch.command.environment = python_environment(job);
  if (auto forced = force_acceptance(job, launch.command); !forced) return diag::fail(std::move(forced).error());
  launch.command.output = request.run_folder / "engine.log";
  return launch;
}

}  // namespace

Framework trtllm_framework() {
  return {.name = "trtllm",
          .endpoints = {.counters = "",
                        .statistics = "/metrics",
                        .version = "/version",
                        .info = "/server_info",
                        .drained = true},
          .uses_bundled_kernels = false,
          .draws_per_step = false,
          .takes_token_ids = true,
          .render = render};
}

}  // namespace sweep::engine
