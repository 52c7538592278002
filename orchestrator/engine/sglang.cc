// SGLang. Facts: server_args and spec_utils.py of SGLang; docs of its production metrics.
#include <fmt/format.h>

#include <cmath>

#include "orchestrator/engine/command.h"

namespace sweep::engine {

namespace {

constexpr int kUsualPort = 30000;

// The length counts the bonus token; SGLang clamps what is out of range, so that nothing would be noticed. The default
// method before `match-expected` drew from a normal distribution, which misses the mean near the ends; a fixed token id
// may be a part of a character and stalls the detokenizer, so real draft tokens are committed.
diag::Result<base::Done> force_acceptance(const plan::Job& job, exec::CommandSpec& command) {
  const auto length = forced_length(job);
  if (!length) return diag::fail(length.error());
  if (!*length) return base::Done{};
  if (find_flag(job, {"speculative-algorithm"}) == nullptr)
    return acceptance_unsupported(job, fmt::format("{} switches no speculative decoding on", job.recipe),
                                  "state speculative-algorithm in the recipe");
  command.environment.emplace_back("SGLANG_SIMULATE_ACC_LEN", decimal(**length));
  command.environment.emplace_back("SGLANG_SIMULATE_ACC_METHOD", "match-expected");
  command.environment.emplace_back("SGLANG_SIMULATE_ACC_TOKEN_MODE", "real-draft-token");
  return base::Done{};
}

diag::Result<Launch> render(const LaunchRequest& request) {
  const plan::Job& job = request.job;
  const auto port = port_of(job, {"port"}, kUsualPort);
  if (!port) return diag::fail(port.error());
  Launch launch;
  launch.served_model = job.model;
  launch.base_url = fmt::format("http://{}:{}", kLoopback, *port);
  launch.command.argv = {"python3",
                         "-m",
                         "sglang.launch_server",
                         "--model-path",
                         request.model_folder.string(),
                         "--served-model-name",
                         job.model,
                         "--revision",
                         job.revision,
                         "--host",
                         std::string(kLoopback),
                         "--port",
                         std::to_string(*port)};
  add_flags(launch.command.argv,
            flags_without(job, {"model-path", "model", "served-model-name", "revision", "host", "port"}));
  // Its counters are read at both ends of the measured window.
  if (find_flag(job, {"enable-metrics"}) == nullptr) launch.command.argv.emplace_back("--enable-metrics");
  launch.command.environment = python_environment(job);
  if (auto forced = force_acceptance(job, launch.command); !forced) return diag::fail(std::move(forced).error());
  launch.command.output = request.run_folder / "engine.log";
  return launch;
}

}  // namespace

Framework sglang_framework() {
  return {.name = "sglang",
          .endpoints = {.counters = "/metrics", .statistics = "/server_info", .version = "", .info = "/server_info"},
          .uses_bundled_kernels = false,
          .draws_per_step = true,
          .takes_token_ids = true,
          .render = render};
}

}  // namespace sweep::engine
