#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <system_error>

#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/run.h"
#include "orchestrator/engine/decode_log.h"
#include "orchestrator/engine/running.h"
#include "orchestrator/engine/server.h"
#include "orchestrator/loadgen/closed_loop.h"
#include "orchestrator/pipeline/power.h"
#include "orchestrator/pipeline/prompt_tokens.h"
#include "orchestrator/pipeline/provenance.h"
#include "orchestrator/pipeline/stages.h"
#include "orchestrator/sample/sample_file.h"

namespace sweep::pipeline {

namespace {

namespace rule = diag::rule;
using nlohmann::json;

// An engine that an earlier, killed sweepctl left behind: the same pid with the same start time as recorded.
void end_stale_engine(const json& engine) {
  const int64_t pid = engine.value("pid", int64_t{0});
  if (pid <= 1) return;
  const auto started = exec::start_time_of(static_cast<pid_t>(pid));
  if (started && *started == engine.value("pid_start_time", uint64_t{0})) ::kill(-static_cast<pid_t>(pid), SIGKILL);
}

struct Server {
  std::unique_ptr<engine::RunningEngine> engine;  // null for a server that someone else runs
  std::string base_url;
  json document;
};

engine::LaunchRequest launch_request(const Line& line, const WeightsOutcome& weights, const KernelsOutcome& kernels) {
  return {.job = line.job,
          .model_folder = weights.model_folder,
          .kernel_library = kernels.build.library,
          .program_folder = line.locations.programs,
          .run_folder = line.folder.path(),
          .seed = line.options.seed};
}

json describe_server(const Line& line, const Server& server, const exec::CommandSpec* command) {
  json info = engine::server_info(server.base_url, line.stop);
  json document = {{"name", line.framework.name},
                   {"version", info.is_object() ? info.value("version", json()) : json()},
                   {"launcher", server.engine ? "local" : "external"},
                   {"base_url", server.base_url},
                   {"command", command != nullptr ? json(exec::quoted_for_shell(*command)) : json()},
                   {"server_info", std::move(info)}};
  if (server.engine) {
    document["pid"] = server.engine->pid();
    document["pid_start_time"] = exec::start_time_of(server.engine->pid()).value_or(0);
  }
  return document;
}

diag::Result<Server> launch(const Line& line, const WeightsOutcome& weights, const KernelsOutcome& kernels) {
  Server server;
  if (line.options.engine_url) {
    server.base_url = *line.options.engine_url;
    while (server.base_url.ends_with('/')) server.base_url.pop_back();
    if (auto checked = engine::check_server(server.base_url, line.job.model, line.stop); !checked)
      return diag::fail(std::move(checked).error());
    server.document = describe_server(line, server, nullptr);
    return server;
  }
  auto rendered = line.framework.render(launch_request(line, weights, kernels));
  if (!rendered) return diag::fail(std::move(rendered).error());
  auto started = engine::RunningEngine::start(*rendered, line.options.ready_timeout, line.stop);
  if (!started) return diag::fail(std::move(started).error());
  server.engine = std::make_unique<engine::RunningEngine>(std::move(*started));
  server.base_url = server.engine->base_url();
  server.document = describe_server(line, server, &rendered->command);
  return server;
}

loadgen::LoadSpec load_spec(const Line& line, const Server& server, loadgen::TokenRange tokens) {
  loadgen::LoadSpec spec{.job = line.job.id,
                         .base_url = server.base_url,
                         .model = line.job.model,
                         .isl = line.job.isl,
                         .osl = line.job.osl,
                         .concurrency = line.job.concurrency,
                         .requests = line.job.requests,
                         .warmup_requests = line.job.warmup_requests,
                         .prompt_tokens = std::move(tokens),
                         .seed = line.options.seed,
                         .give_up_after = 1};  // one failed request already makes the run invalid
  spec.timeouts.first_byte = line.options.request_timeout;
  spec.timeouts.idle = line.options.request_timeout / 5;
  spec.timeouts.total = line.options.request_timeout * 2;
  return spec;
}

// Acceptance counters at the two ends of the measured phase. The first reading is taken when warm-up has ended.
struct Readings {
  std::optional<engine::Counters> before;
  std::optional<engine::Counters> after;
};

std::optional<engine::Counters> read_counters(const Line& line, const std::string& base_url) {
  if (line.framework.metrics_prefix.empty()) return std::nullopt;
  auto counters = engine::read_counters(base_url, line.framework.metrics_prefix, line.stop);
  if (counters) return *counters;
  line.diagnostics.add(std::move(counters).error());
  return std::nullopt;
}

class Watch {
 public:
  explicit Watch(Progress& progress) : progress_(progress) {}

  void on(const loadgen::Progress& now) {
    const Stage stage = now.phase == sample::Phase::kWarmUp ? Stage::kWarmUp : Stage::kMeasure;
    if (!current_ || *current_ != stage) enter(stage, now.total);
    progress_.advance(stage, now.finished, now.total,
                      fmt::format("requests, {} tokens{}", now.output_tokens,
                                  now.failed > 0 ? fmt::format(", {} failed", now.failed) : std::string()));
  }
  void finish(std::string_view outcome) {
    if (current_) progress_.end(*current_, outcome);
  }
  void fail(std::string_view reason) { progress_.fail(current_.value_or(Stage::kMeasure), reason); }

 private:
  void enter(Stage stage, int64_t total) {
    if (current_) progress_.end(*current_, "done, at the exact shape");
    current_ = stage;
    progress_.begin(stage, fmt::format("{} requests", total));
  }

  Progress& progress_;
  std::optional<Stage> current_;
};

// Fails for what leaves nothing to judge: interruption, a dead engine, a request without a complete reply.
std::optional<diag::Diagnostic> broken_off(const loadgen::Measurement& m, Server& server, const RunFolder& folder) {
  if (m.cancelled)
    return diag::make(rule::exec_interrupted, "interrupted during the measurement",
                      fmt::format("continue with --resume --out {}", folder.path().string()));
  constexpr std::chrono::seconds kPatience{2};
  const bool incomplete = m.not_sent != 0 || m.problems.has_errors();
  if (server.engine)
    if (auto death = server.engine->death(incomplete ? kPatience : std::chrono::seconds(0))) return death;
  if (m.not_sent == 0) return std::nullopt;
  diag::Diagnostic diagnostic = diag::make(
      rule::run_broken_off, fmt::format("the measurement was broken off with {} requests not sent", m.not_sent),
      fmt::format("read {}; then continue with --resume --out {}", folder.file(stage_file::kEngineLog).string(),
                  folder.path().string()));
  for (const diag::Diagnostic& problem : m.problems.items())
    diagnostic.notes.push_back({problem.message, std::nullopt});
  return diagnostic;
}

int64_t measured_count(const std::vector<sample::Sample>& samples) {
  return std::count_if(samples.begin(), samples.end(),
                       [](const sample::Sample& s) { return s.phase == sample::Phase::kMeasured; });
}

json window_json(const sample::Window& window) {
  return {{"start_ns", window.start_ns},
          {"end_ns", window.end_ns},
          {"start_unix_ns", window.start_unix_ns},
          {"end_unix_ns", window.end_unix_ns}};
}

json windows_json(const std::vector<engine::DecodeWindow>& windows) {
  json list = json::array();
  for (const engine::DecodeWindow& w : windows)
    list.push_back({{"begin_unix_ns", w.begin_ns.value_or(0)},
                    {"end_unix_ns", w.end_ns.value_or(0)},
                    {"steps", w.steps.value_or(0)},
                    {"accepted", w.accepted.value_or(0)}});
  return list;
}

diag::Result<json> put_load(const Line& line, Server& server, const WeightsOutcome& weights) {
  auto tokens = prompt_tokens(weights.model_folder);
  if (!tokens) return diag::fail(std::move(tokens).error());
  auto writer = sample::SampleWriter::create(line.folder.file(stage_file::kRequestsPartial));
  if (!writer) return diag::fail(std::move(writer).error());
  Watch watch(line.progress);
  Readings readings;
  if (line.job.warmup_requests == 0) readings.before = read_counters(line, server.base_url);
  auto measured = loadgen::run_closed_loop(
      load_spec(line, server, std::move(*tokens)), [&](const sample::Sample& s) { return writer->write(s); },
      [&](const loadgen::Progress& now) {
        watch.on(now);
        const bool warm = now.phase == sample::Phase::kWarmUp && now.finished == now.total && now.in_flight == 0;
        if (warm && !readings.before) readings.before = read_counters(line, server.base_url);
      },
      line.stop);
  if (!measured) return diag::fail(std::move(measured).error());
  if (auto reason = broken_off(*measured, server, line.folder)) {
    watch.fail(reason->message);
    return diag::fail(std::move(*reason));
  }
  readings.after = read_counters(line, server.base_url);
  line.diagnostics.add_all(measured->problems);
  watch.finish(fmt::format("{} of {} requests in {:.2f} s", measured_count(measured->samples), line.job.requests,
                           measured->window ? measured->window->seconds() : 0.0));
  if (auto synced = writer->sync(); !synced) return diag::fail(std::move(synced).error());
  SWEEPCTL_CHECK(measured->window.has_value());
  const std::vector<engine::DecodeWindow> windows =
      server.engine ? engine::read_windows(line.folder.file(stage_file::kEngineLog), measured->window->start_unix_ns,
                                           measured->window->end_unix_ns)
                    : std::vector<engine::DecodeWindow>();
  return json{{"window", window_json(*measured->window)},
              {"counters_before", readings.before ? engine::to_json(*readings.before) : json()},
              {"counters_after", readings.after ? engine::to_json(*readings.after) : json()},
              {"windows", windows_json(windows)}};
}

// What the bundled engine says of its steps once the load is over joins what it said of itself at launch.
diag::Result<diag::Done> note_steps(const Line& line, Server& server) {
  json& info = server.document["server_info"];
  if (!info.is_object() || !info.contains("steps")) return diag::Done{};
  const json now = engine::server_info(server.base_url, line.stop);
  if (!now.is_object() || !now.contains("steps")) return diag::Done{};
  info["steps"] = now["steps"];
  return line.folder.write(stage_file::kEngine, server.document);
}

diag::Result<Measured> from_folder(const Line& line, json measurement) {
  auto samples = sample::read_samples(line.folder.file(stage_file::kRequests));
  if (!samples) return diag::fail(std::move(samples).error());
  auto engine = line.folder.read(stage_file::kEngine);
  if (!engine) return diag::fail(std::move(engine).error());
  return Measured{.engine = engine->value_or(json::object()),
                  .measurement = std::move(measurement),
                  .samples = std::move(samples->samples)};
}

}  // namespace

diag::Result<Measured> measure(const Line& line, const WeightsOutcome& weights, const KernelsOutcome& kernels) {
  auto known = line.folder.read(stage_file::kMeasurement);
  if (!known) return diag::fail(std::move(known).error());
  if (*known) {
    line.progress.reuse(Stage::kMeasure, fmt::format("{} requests", line.job.requests));
    return from_folder(line, std::move(**known));
  }
  auto former = line.folder.read(stage_file::kEngine);
  if (former && *former) end_stale_engine(**former);
  if (auto aside = line.folder.set_attempt_aside(); !aside) return diag::fail(std::move(aside).error());

  PowerRecording power(line.job, !line.options.engine_url);
  auto server =
      as_stage<Server>(line.progress, Stage::kLaunch, "starting", [&] { return launch(line, weights, kernels); });
  if (!server) return diag::fail(std::move(server).error());
  if (auto written = line.folder.write(stage_file::kEngine, server->document); !written)
    return diag::fail(std::move(written).error());
  line.progress.end(Stage::kLaunch,
                    fmt::format("{} serves {} at {}", line.framework.name, line.job.model, server->base_url));

  if (server->engine) power.start(server->engine->pid());
  auto measurement = put_load(line, *server, weights);
  if (auto noted = note_steps(line, *server); !noted) return diag::fail(std::move(noted).error());
  auto telemetry = power.finish(line.folder.path());
  if (server->engine) server->engine->stop();
  if (!measurement) return diag::fail(std::move(measurement).error());
  if (!telemetry) return diag::fail(std::move(telemetry).error());
  std::error_code error;
  std::filesystem::rename(line.folder.file(stage_file::kRequestsPartial), line.folder.file(stage_file::kRequests),
                          error);
  if (error)
    return diag::fail(
        rule::file_unwritable,
        fmt::format("cannot name {}: {}", line.folder.file(stage_file::kRequests).string(), error.message()));
  (*measurement)["telemetry"] = std::move(*telemetry);
  (*measurement)["host"] = describe_host();
  (*measurement)["checkout"] = describe_checkout(line.locations.root, line.stop);
  if (auto written = line.folder.write(stage_file::kMeasurement, *measurement); !written)
    return diag::fail(std::move(written).error());
  return from_folder(line, std::move(*measurement));
}

}  // namespace sweep::pipeline
