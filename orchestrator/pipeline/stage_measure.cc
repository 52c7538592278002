#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "orchestrator/base/deadline.h"
#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/run.h"
#include "orchestrator/engine/log_tail.h"
#include "orchestrator/engine/readback.h"
#include "orchestrator/pipeline/engine_server.h"
#include "orchestrator/pipeline/load.h"
#include "orchestrator/pipeline/power.h"
#include "orchestrator/pipeline/provenance.h"
#include "orchestrator/pipeline/stages.h"
#include "orchestrator/sample/sample_file.h"

namespace sweep::pipeline {

namespace {

namespace rule = diag::rule;
using nlohmann::json;

// What the engine says at the two ends of the measured phase, as it came; kept beside the result.
struct Readings {
  engine::Reading before;
  engine::Reading after;
  uint64_t log_from = 0;  // size of the log when the first was taken
  uint64_t log_to = 0;    // and when the last request had ended
  bool begun = false;
};

// For all that is asked of the engine about itself when the load is over. One that has just failed a request may never
// answer again.
constexpr std::chrono::seconds kAfterLoad{30};
constexpr std::chrono::seconds kAfterFailure{3};

void begin(const Line& line, const engine::ServerAddress& address, Readings& readings) {
  readings.before = engine::take_reading(line.framework, address, line.stop, line.diagnostics);
  readings.log_from = engine::log_size(line.folder.file(stage_file::kEngineLog));
  readings.begun = true;
}

// Engines count a request some time after its last token has left: the counters are read until they hold what was
// received, for a moment.
void read_at_end(const Line& line, const engine::ServerAddress& address, const loadgen::Measurement& m,
                 Readings& readings) {
  constexpr std::chrono::milliseconds kBetween{100};
  constexpr int kMost = 10;
  engine::ServedTokens served;
  for (const sample::Sample& s : m.samples) {
    if (s.phase != sample::Phase::kMeasured) continue;
    ++served.requests;
    served.tokens += s.completion_tokens.value_or(0);
  }
  readings.after = engine::take_reading(line.framework, address, line.stop, line.diagnostics);
  for (int i = 0; i < kMost && !engine::is_complete(line.framework, readings.before, readings.after, served); ++i) {
    if (line.stop.stop_requested() || address.until->passed()) return;
    std::this_thread::sleep_for(kBetween);
    engine::read_again(line.framework, address, line.stop, readings.after);
  }
}

diag::Result<diag::Done> keep(const RunFolder& folder, const Readings& readings) {
  for (const auto& [name, text] : {std::pair(stage_file::kCountersBefore, &readings.before.counters),
                                   std::pair(stage_file::kCountersAfter, &readings.after.counters),
                                   std::pair(stage_file::kStatisticsBefore, &readings.before.statistics),
                                   std::pair(stage_file::kStatisticsAfter, &readings.after.statistics)})
    if (!text->empty())
      if (auto written = folder.write_text(name, *text); !written) return written;
  return diag::Done{};
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

bool has_incomplete(const loadgen::Measurement& m) {
  return m.not_sent != 0 || std::any_of(m.samples.begin(), m.samples.end(),
                                        [](const sample::Sample& s) { return s.finish_reason.empty(); });
}

// Fails for what leaves nothing to judge: interruption, a dead engine, a request without a complete reply.
std::optional<diag::Diagnostic> broken_off(const loadgen::Measurement& m, Server& server, const RunFolder& folder) {
  if (m.cancelled)
    return diag::make(rule::exec_interrupted, "interrupted during the measurement",
                      fmt::format("continue with --resume --out {}", folder.path().string()));
  constexpr std::chrono::seconds kPatience{2};
  if (server.engine)
    if (auto death = server.engine->death(has_incomplete(m) ? kPatience : std::chrono::seconds(0))) return death;
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

// An engine that ended with the last request has left nothing to read back.
std::optional<diag::Diagnostic> ended_early(const Readings& readings, Server& server) {
  if (!server.engine || readings.after.is_reachable) return std::nullopt;
  constexpr std::chrono::seconds kPatience{2};
  return server.engine->death(kPatience);
}

json measurement_json(const Line& line, const Server& server, const sample::Window& window, const Readings& readings) {
  json document = {
      {"window", window_json(window)},
      {"counted", engine::to_json(engine::counted_between(line.framework, readings.before, readings.after))},
      {"log", nullptr}};
  if (server.engine)
    document["log"] = engine::to_json(engine::read_window_log(line.framework, line.folder.file(stage_file::kEngineLog),
                                                              {.from_byte = readings.log_from,
                                                               .to_byte = readings.log_to,
                                                               .from_unix_ns = window.start_unix_ns,
                                                               .to_unix_ns = window.end_unix_ns}));
  return document;
}

// What the bundled engine says of its steps once the load is over joins what it said of itself at launch.
diag::Result<diag::Done> note_steps(const Line& line, const engine::ServerAddress& address, Server& server) {
  json& info = server.document["server_info"];
  if (!info.is_object() || !info.contains("steps")) return diag::Done{};
  const json now = engine::describe(line.framework, address, std::nullopt, line.stop)["server_info"];
  if (!now.is_object() || !now.contains("steps")) return diag::Done{};
  info["steps"] = now["steps"];
  return line.folder.write(stage_file::kEngine, server.document);
}

diag::Result<json> put_load(const Line& line, Server& server, const loadgen::LoadSpec& spec) {
  auto writer = sample::SampleWriter::create(line.folder.file(stage_file::kRequestsPartial));
  if (!writer) return diag::fail(std::move(writer).error());
  Watch watch(line.progress);
  Readings readings;
  engine::ServerAddress address{server.base_url, line.options.access};
  if (line.job.warmup_requests == 0) begin(line, address, readings);
  auto measured = run_load(
      line, spec, [&](const sample::Sample& s) { return writer->write(s); },
      [&](const loadgen::Progress& now) {
        watch.on(now);
        const bool warm = now.phase == sample::Phase::kWarmUp && now.finished == now.total && now.in_flight == 0;
        if (!warm || readings.begun) return;
        if (now.failed > 0) address.until = base::Deadline(kAfterFailure);
        begin(line, address, readings);
      });
  if (!measured) return diag::fail(std::move(measured).error());
  if (auto reason = broken_off(*measured, server, line.folder)) {
    watch.fail(reason->message);
    return diag::fail(std::move(*reason));
  }
  readings.log_to = engine::log_size(line.folder.file(stage_file::kEngineLog));
  address.until = base::Deadline(has_incomplete(*measured) ? kAfterFailure : kAfterLoad);
  read_at_end(line, address, *measured, readings);
  if (auto reason = ended_early(readings, server)) {
    watch.fail(reason->message);
    return diag::fail(std::move(*reason));
  }
  line.diagnostics.add_all(measured->problems);
  watch.finish(fmt::format("{} of {} requests in {:.2f} s", measured_count(measured->samples), line.job.requests,
                           measured->window ? measured->window->seconds() : 0.0));
  if (auto synced = writer->sync(); !synced) return diag::fail(std::move(synced).error());
  if (auto kept = keep(line.folder, readings); !kept) return diag::fail(std::move(kept).error());
  if (auto noted = note_steps(line, address, server); !noted) return diag::fail(std::move(noted).error());
  SWEEPCTL_CHECK(measured->window.has_value());
  return measurement_json(line, server, *measured->window, readings);
}

diag::Result<json> probe_and_load(const Line& line, Server& server, const WeightsOutcome& weights) {
  auto spec = load_spec(line, server.base_url, weights);
  if (!spec) return diag::fail(std::move(spec).error());
  spec->model = server.served_model;
  if (auto probed = probe_server(line, server, *spec); !probed) return diag::fail(std::move(probed).error());
  auto measurement = put_load(line, server, *spec);
  if (measurement) (*measurement)["load"] = load_document(line.options, *spec);
  return measurement;
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
  if (former && *former) engine::end_left_behind(**former);
  if (auto aside = line.folder.set_attempt_aside(); !aside) return diag::fail(std::move(aside).error());

  PowerRecording power(line.job, !line.options.engine_url, line.locations.nvml);
  auto server =
      as_stage<Server>(line.progress, Stage::kLaunch, "starting", [&] { return open_server(line, weights, kernels); });
  if (!server) return diag::fail(std::move(server).error());
  if (auto written = line.folder.write(stage_file::kEngine, server->document); !written)
    return diag::fail(std::move(written).error());
  line.progress.end(Stage::kLaunch,
                    fmt::format("{} serves {} at {}", line.framework.name, line.job.model, server->base_url));

  if (server->engine) power.start(server->engine->first_process());
  auto measurement = probe_and_load(line, *server, weights);
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
