#include "orchestrator/pipeline/power.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/pipeline/run_folder.h"

namespace sweep::pipeline {

namespace {

using nlohmann::json;

constexpr int64_t kIdleBytes = int64_t{2} << 30;  // what a driver keeps on an idle GPU, and some

// The parent of a process; 0 if it has none that is visible.
pid_t parent_of(pid_t pid) {
  constexpr uint64_t kMostBytes = 4096;
  const auto stat = base::read_file(fmt::format("/proc/{}/stat", pid), kMostBytes);
  if (!stat) return 0;
  // "PID (name) S PPID ...", where the name may hold anything.
  const size_t name_end = stat->rfind(')');
  constexpr size_t kStateLength = 4;
  if (name_end == std::string::npos || name_end + kStateLength >= stat->size()) return 0;
  return static_cast<pid_t>(std::strtol(stat->c_str() + name_end + kStateLength, nullptr, 10));
}

// Whether the engine, which leads its group, or a process below it is meant. A process that is not visible is in
// another PID namespace, as the engine's own are where it runs in a container.
bool is_engine_or_unseen(int64_t pid, pid_t engine) {
  auto id = static_cast<pid_t>(pid);
  if (::kill(id, 0) != 0 && errno == ESRCH) return true;
  constexpr int kMostLevels = 64;
  for (int level = 0; level < kMostLevels && id > 0; ++level) {
    if (id == engine || ::getpgid(id) == engine) return true;
    id = parent_of(id);
  }
  return false;
}

json occupancy_json(const std::vector<telemetry::Occupancy>& list) {
  json out = json::array();
  for (const telemetry::Occupancy& o : list)
    out.push_back({{"gpu", o.gpu},
                   {"memory_used_bytes", o.memory_used_bytes},
                   {"processes", o.processes ? json(*o.processes) : json(nullptr)}});
  return out;
}

// What kept a GPU busy before the engine was launched; empty if nothing did.
std::string occupied(const json& before_launch) {
  if (!before_launch.is_array()) return {};
  for (const json& gpu : before_launch) {
    if (!gpu.is_object()) continue;
    const json processes = gpu.value("processes", json());
    const int64_t count = processes.is_number_integer() ? processes.get<int64_t>() : 0;
    const int64_t bytes = gpu.value("memory_used_bytes", int64_t{0});
    if (count != 0 || bytes > kIdleBytes)
      return fmt::format("{} had {} processes and {} MiB in use", gpu.value("gpu", "a GPU"), count, bytes >> 20);
  }
  return {};
}

std::optional<int64_t> most_foreign(const telemetry::Capture& capture, const telemetry::Span& window) {
  std::optional<int64_t> most;
  for (const telemetry::Gpu& gpu : capture.gpus) {
    std::optional<int64_t> of_gpu;
    for (const telemetry::Sample& s : gpu.samples)
      if (s.foreign_processes && s.ns >= window.begin_ns && s.ns <= window.end_ns)
        of_gpu = std::max(of_gpu.value_or(0), *s.foreign_processes);
    if (!of_gpu) return std::nullopt;
    most = std::max(most.value_or(0), *of_gpu);
  }
  return most;
}

std::string power_text(const telemetry::PowerReport& report) {
  if (!report.valid()) return fmt::format("power: {}", fmt::join(report.reasons(), "; "));
  int64_t least = report.gpus.empty() ? 0 : report.gpus.front().samples;
  for (const telemetry::GpuPower& gpu : report.gpus) least = std::min(least, gpu.samples);
  return fmt::format("{} GPU{} with {} or more power samples inside the window, {:.1f} J in total", report.gpus.size(),
                     report.gpus.size() == 1 ? "" : "s", least, report.total_energy_j().value_or(0));
}

PowerOutcome nothing(std::string reason) {
  PowerOutcome outcome;
  outcome.document = {{"measured", false}, {"reason", reason}};
  outcome.reason = std::move(reason);
  return outcome;
}

telemetry::PowerReport evaluate_folder(const std::filesystem::path& csv, const telemetry::Window& window,
                                       std::optional<telemetry::Capture>& capture) {
  telemetry::PowerReport unread;
  const auto text = base::read_file(csv, telemetry::kMostCaptureBytes);
  if (!text) {
    unread.findings.add(diag::make(diag::rule::file_unreadable, text.error().text()));
    return unread;
  }
  capture = telemetry::parse_capture(csv.filename().string(), *text, unread.findings);
  if (!capture) return unread;
  telemetry::PowerReport report = telemetry::evaluate(*capture, window, telemetry::kLive);
  report.findings.add_all(unread.findings);
  return report;
}

std::optional<telemetry::Span> span_of(const json& window, const char* begin, const char* end) {
  const telemetry::Span span{window.value(begin, int64_t{0}), window.value(end, int64_t{0})};
  return span.end_ns > span.begin_ns ? std::optional(span) : std::nullopt;
}

}  // namespace

PowerRecording::PowerRecording(const plan::Job& job, bool launched_here, const std::string& library) {
  if (job.gpus == 0) {
    reason_ = "no GPU was used";
  } else if (!launched_here) {
    reason_ = "the server was started by someone else, and which GPUs it uses is not known here";
  } else if (job.multinode) {
    reason_ = "the engine runs on several hosts, and only this one could be sampled";
  }
  if (!reason_.empty()) return;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  options_ = {.library = library,
              .gpus = static_cast<size_t>(job.gpus),
              .visible_devices = visible != nullptr ? visible : "",
              .is_own = {}};
  if (auto before = telemetry::occupancy(options_))
    before_launch_ = occupancy_json(*before);
  else
    reason_ = before.error().message;
}

void PowerRecording::start(pid_t engine) {
  if (!reason_.empty()) return;
  options_.is_own = [engine](int64_t pid) { return is_engine_or_unseen(pid, engine); };
  auto started = telemetry::Sampler::start(options_);
  if (started)
    sampler_ = std::move(*started);
  else
    reason_ = started.error().message;
}

diag::Result<json> PowerRecording::finish(const std::filesystem::path& run_folder) {
  if (!sampler_) return json{{"recorded", false}, {"reason", reason_}};
  const telemetry::Recording recording = sampler_->stop();
  sampler_.reset();
  const std::filesystem::path file = run_folder / stage_file::kPower;
  if (auto written = base::write_file_atomic(file, telemetry::power_csv(recording)); !written)
    return diag::fail(diag::rule::file_unwritable, written.error().text());
  json gpus = json::array();
  for (size_t i = 0; i < recording.capture.gpus.size(); ++i) {
    const telemetry::Gpu& gpu = recording.capture.gpus[i];
    gpus.push_back({{"index", gpu.index}, {"uuid", gpu.uuid}, {"name", recording.gpu_names[i]}});
  }
  return json{{"recorded", true},
              {"reason", nullptr},
              {"file", stage_file::kPower},
              {"driver", recording.driver_version},
              {"gpus", std::move(gpus)},
              {"instant_power", recording.instant_power},
              {"problems", recording.problems},
              {"before_launch", before_launch_}};
}

PowerOutcome power_of(const plan::Job& job, const std::filesystem::path& run_folder, const json& measurement,
                      int64_t output_tokens) {
  if (job.gpus == 0) return nothing("no GPU was used");
  const json recorded = measurement.value("telemetry", json::object());
  if (!recorded.is_object() || !recorded.value("recorded", false))
    return nothing(recorded.is_object() ? recorded.value("reason", "telemetry was not recorded")
                                        : "telemetry was not recorded");
  const json times = measurement.value("window", json::object());
  telemetry::Window window{.monotonic = span_of(times, "start_ns", "end_ns"),
                           .expected_gpus = job.gpus,
                           .output_tokens = output_tokens > 0 ? std::optional(output_tokens) : std::nullopt};
  PowerOutcome outcome;
  std::optional<telemetry::Capture> capture;
  outcome.report = evaluate_folder(run_folder / stage_file::kPower, window, capture);
  outcome.telemetry = judge::Telemetry{
      .power_valid = outcome.report->valid(),
      .power_text = power_text(*outcome.report),
      .foreign_processes = capture && window.monotonic ? most_foreign(*capture, *window.monotonic) : std::nullopt,
      .occupied_before = occupied(recorded.value("before_launch", json::array()))};
  outcome.document = telemetry::values_json(*outcome.report);
  outcome.document["measured"] = true;
  outcome.document["reason"] = nullptr;
  outcome.document["valid"] = outcome.report->valid();
  outcome.document["reasons"] = outcome.report->reasons();
  outcome.document["file"] = stage_file::kPower;
  outcome.document["instant_power"] = recorded.value("instant_power", false);
  return outcome;
}

}  // namespace sweep::pipeline
