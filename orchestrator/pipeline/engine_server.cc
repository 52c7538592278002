#include "orchestrator/pipeline/engine_server.h"

#include <fmt/format.h>

#include <utility>

#include "orchestrator/base/deadline.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/engine/container.h"
#include "orchestrator/engine/log_tail.h"
#include "orchestrator/engine/server.h"

namespace sweep::pipeline {

namespace {

namespace rule = diag::rule;
using nlohmann::json;

// Not any that a measured prompt can have: those are derived from the run's seed and their number.
constexpr uint64_t kProbeSeed = 0x9E3779B97F4A7C15;

json describe_server(const Line& line, const Server& server, const exec::CommandSpec* command) {
  const auto log = server.engine ? std::optional(line.folder.file(stage_file::kEngineLog)) : std::nullopt;
  constexpr std::chrono::seconds kPatience{10};
  json document = engine::describe(
      line.framework, {.base_url = server.base_url, .access = line.options.access, .until = base::Deadline(kPatience)},
      log, line.stop);
  document["name"] = line.framework.name;
  document["launcher"] = server.engine ? launcher_name(line.options.launcher) : "external";
  document["base_url"] = server.base_url;
  document["served_model"] = server.served_model;
  document["command"] = command != nullptr ? json(exec::quoted_for_shell(*command)) : json();
  document["image_digest"] = nullptr;
  document["container"] = nullptr;
  if (!server.engine) return document;
  document["pid"] = server.engine->pid();
  document["pid_start_time"] = exec::start_time_of(server.engine->pid()).value_or(0);
  document["mark"] = server.engine->mark();
  if (const engine::Container* container = server.engine->container())
    document["container"] = {{"runtime", container->runtime}, {"name", container->name}};
  if (!server.engine->image_digest().empty()) document["image_digest"] = server.engine->image_digest();
  return document;
}

}  // namespace

diag::Result<engine::Launch> render_launch(const engine::Framework& framework, const engine::LaunchRequest& request,
                                           Launcher launcher) {
  if (request.job.multinode)
    return diag::fail(diag::make_at(rule::engine_launcher_unavailable, request.job.where,
                                    fmt::format("\"{}\" spans several hosts, which the launcher \"{}\" cannot start",
                                                request.job.entry, launcher_name(launcher)),
                                    "start it with the cluster's scheduler and measure it with --engine-url"));
  auto launch = framework.render(request);
  if (!launch || launcher == Launcher::kLocal) return launch;
  return engine::in_container(std::move(*launch), request, engine::container_runtime());
}

diag::Result<Server> open_server(const Line& line, const WeightsOutcome& weights, const KernelsOutcome& kernels) {
  Server server;
  if (line.options.engine_url) {
    server.base_url = *line.options.engine_url;
    while (server.base_url.ends_with('/')) server.base_url.pop_back();
    server.served_model = line.job.model;
    if (auto checked = engine::check_server({server.base_url, line.options.access}, line.job.model, line.stop);
        !checked)
      return diag::fail(std::move(checked).error());
    server.document = describe_server(line, server, nullptr);
    return server;
  }
  auto rendered = render_launch(line.framework,
                                {.job = line.job,
                                 .model_folder = weights.model_folder,
                                 .kernel_library = kernels.build.library,
                                 .program_folder = line.locations.programs,
                                 .run_folder = line.folder.path(),
                                 .seed = line.options.seed},
                                line.options.launcher);
  if (!rendered) return diag::fail(std::move(rendered).error());
  auto started = engine::RunningEngine::start(*rendered, line.options.ready_timeout, line.stop);
  if (!started) return diag::fail(std::move(started).error());
  server.engine = std::make_unique<engine::RunningEngine>(std::move(*started));
  server.base_url = server.engine->base_url();
  server.served_model = rendered->served_model;
  server.document = describe_server(line, server, &rendered->command);
  return server;
}

diag::Result<diag::Done> probe_server(const Line& line, Server& server, const loadgen::LoadSpec& spec) {
  auto done = engine::probe({server.base_url, line.options.access},
                            {.path = loadgen::api_path(spec.api),
                             .body = loadgen::completion_body(spec, kProbeSeed),
                             .limit = line.options.request_timeout},
                            line.stop);
  if (done) return done;
  if (line.stop.stop_requested())
    return diag::fail(rule::exec_interrupted, "interrupted while the engine was probed",
                      fmt::format("continue with --resume --out {}", line.folder.path().string()));
  const bool answered = done.error().rule == rule::engine_probe_failed;
  const std::string message =
      answered ? done.error().message
               : fmt::format("the probe request to {} failed: {}", server.base_url, done.error().message);
  if (!server.engine) return diag::fail(rule::engine_probe_failed, message, "look into the server's log");
  constexpr std::chrono::seconds kPatience{2};
  if (auto death = server.engine->death(answered ? std::chrono::seconds(0) : kPatience))
    return diag::fail(std::move(*death));
  return diag::fail(engine::failure_told_by(line.folder.file(stage_file::kEngineLog), rule::engine_probe_failed,
                                            message, "look into the engine's log"));
}

}  // namespace sweep::pipeline
