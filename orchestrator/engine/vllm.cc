// vLLM. Facts: config/speculative.py and v1/spec_decode of vLLM.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "orchestrator/engine/command.h"

namespace sweep::engine {

namespace {

constexpr int kUsualPort = 8000;

// The synthetic method is a part of the speculative configuration. The length counts the bonus token; vLLM turns it
// into the rates of least variance: ones, then the fraction, then zeros.
diag::Result<std::optional<std::string>> speculative_config(const plan::Job& job) {
  const plan::Setting* flag = find_flag(job, {"speculative-config"});
  const auto length = forced_length(job);
  if (!length) return diag::fail(length.error());
  if (flag == nullptr) {
    if (!*length) return std::optional<std::string>();
    return acceptance_unsupported(job, fmt::format("{} has no speculative-config", job.recipe),
                                  "state speculative-config with the method and num_speculative_tokens");
  }
  auto config = object_in(job, *flag);
  if (!config) return diag::fail(std::move(config).error());
  if (*length) {
    if (config->value("enable_adaptive_verification", nlohmann::json()) == true)
      return acceptance_unsupported(job, "adaptive verification verifies fewer drafts than are made",
                                    "leave enable_adaptive_verification out of speculative-config");
    (*config)["rejection_sample_method"] = "synthetic";
    (*config)["synthetic_acceptance_length"] = **length;
  }
  return std::optional(config->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

diag::Result<Launch> render(const LaunchRequest& request) {
  const plan::Job& job = request.job;
  const auto port = port_of(job, {"port"}, kUsualPort);
  if (!port) return diag::fail(port.error());
  auto speculative = speculative_config(job);
  if (!speculative) return diag::fail(std::move(speculative).error());
  Launch launch;
  launch.served_model = job.model;
  launch.base_url = fmt::format("http://{}:{}", kLoopback, *port);
  launch.command.argv = {"vllm",
                         "serve",
                         request.model_folder.string(),
                         "--served-model-name",
                         job.model,
                         "--host",
                         std::string(kLoopback),
                         "--port",
                         std::to_string(*port)};
  add_flags(launch.command.argv,
            flags_without(job, {"model", "served-model-name", "revision", "host", "port", "speculative-config"}));
  if (*speculative) launch.command.argv.insert(launch.command.argv.end(), {"--speculative-config", **speculative});
  launch.command.environment = python_environment(job);
  launch.command.output = request.run_folder / "engine.log";
  return launch;
}

}  // namespace

Framework vllm_framework() {
  return {.name = "vllm",
          .endpoints = {.counters = "/metrics", .statistics = "", .version = "/version", .info = ""},
          .uses_bundled_kernels = false,
          .draws_per_step = false,
          .takes_token_ids = true,
          .render = render};
}

}  // namespace sweep::engine
