// ATOM. Facts: docs/forced_acceptance_length.md, recipes/DSpark.md and entrypoints/openai of ROCm/ATOM.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "orchestrator/engine/command.h"

namespace sweep::engine {

namespace {

constexpr int kUsualPort = 8000;

// The length counts the bonus token. ATOM refuses it beside a confidence schedule, after it has loaded the weights.
diag::Result<base::Done> force_acceptance(const plan::Job& job, exec::CommandSpec& command) {
  const auto length = forced_length(job);
  if (!length) return diag::fail(length.error());
  if (!*length) return base::Done{};
  if (find_flag(job, {"method"}) == nullptr)
    return acceptance_unsupported(job, fmt::format("{} switches no speculative decoding on", job.recipe),
                                  "state method and num-speculative-tokens in the recipe");
  if (const plan::Setting* flag = find_flag(job, {"dspark-config"})) {
    const auto config = object_in(job, *flag);
    if (!config) return diag::fail(config.error());
    if (config->value("confidence_schedule", nlohmann::json()) == true)
      return acceptance_unsupported(job, "ATOM refuses a forced length beside its confidence schedule",
                                    "leave confidence_schedule out of dspark-config");
  }
  command.argv.insert(command.argv.end(), {"--spec-decode-acceptance-length", decimal(**length)});
  return base::Done{};
}

diag::Result<Launch> render(const LaunchRequest& request) {
  const plan::Job& job = request.job;
  const auto port = port_of(job, {"server-port"}, kUsualPort);
  if (!port) return diag::fail(port.error());
  Launch launch;
  launch.served_model = request.model_folder.string();  // it knows no other name
  launch.base_url = fmt::format("http://{}:{}", kLoopback, *port);
  launch.command.argv = {"python3",
                         "-m",
                         "atom.entrypoints.openai_server",
                         "--model",
                         request.model_folder.string(),
                         "--host",
                         std::string(kLoopback),
                         "--server-port",
                         std::to_string(*port)};
  add_flags(launch.command.argv, flags_without(job, {"model", "served-model-name", "host", "server-port", "revision"}));
  launch.command.environment = python_environment(job);
  if (auto forced = force_acceptance(job, launch.command); !forced) return diag::fail(std::move(forced).error());
  launch.command.output = request.run_folder / "engine.log";
  return launch;
}

}  // namespace

Framework atom_framework() {
  return {
      .name = "atom",
      .endpoints = {.counters = "/metrics", .statistics = "/debug/mtp_stats", .version = "", .info = "/server_info"},
      .uses_bundled_kernels = false,
      .draws_per_step = false,
      .takes_token_ids = false,
      .render = render};
}

}  // namespace sweep::engine
