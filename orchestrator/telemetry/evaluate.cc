#include "orchestrator/telemetry/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/power.h"
#include "orchestrator/stats/distribution.h"
#include "orchestrator/telemetry/energy.h"
#include "orchestrator/telemetry/throttle.h"

namespace sweep::telemetry {

namespace {

namespace rule = diag::rule;
using nlohmann::json;

constexpr double kMostPowerW = 3000;  // twice the largest limit of a GPU on sale
constexpr double kMostSmClockMhz = 5000;
constexpr double kMostAbsentShare = 0.01;
constexpr double kDecayPercent = 5;
constexpr double kDecayCorrelation = -0.7;
constexpr size_t kLeastTrendSamples = 5;
constexpr double kCounterTolerance = 0.05;
constexpr double kLeastCounterWindowS = 2;  // the counter moves every some tens of milliseconds

double percent(double part, double whole) {
  return part / whole * 100;
}

// Pearson's correlation; 0 where one of the two does not vary.
double correlation(const std::vector<Point>& points) {
  const auto count = static_cast<double>(points.size());
  std::vector<double> times, values;
  for (const Point& p : points) {
    times.push_back(static_cast<double>(p.ns - points.front().ns) / base::kNanosecondsPerSecond);
    values.push_back(p.value);
  }
  const double mean_time = stats::stable_sum(times) / count;
  const double mean_value = stats::stable_sum(values) / count;
  double both = 0, time_square = 0, value_square = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const double t = times[i] - mean_time;
    const double v = values[i] - mean_value;
    both += t * v;
    time_square += t * t;
    value_square += v * v;
  }
  return time_square > 0 && value_square > 0 ? both / std::sqrt(time_square * value_square) : 0;
}

// Judges one GPU.
class GpuCheck {
 public:
  GpuCheck(const Capture& capture, const Gpu& gpu, const Span& window, diag::Diagnostics& out)
      : capture_(capture), gpu_(gpu), window_(window), out_(out) {
    power_.name = gpu.name();
  }

  GpuPower run(const Requirements& requirements) {
    if (!check_order()) return power_;
    for (const Sample& s : gpu_.samples) {
      if (s.power_w) points_.push_back({s.ns, *s.power_w});
      if (s.energy_j) counter_.push_back({s.ns, *s.energy_j});
      if (is_inside(s)) inside_.push_back(&s);
    }
    check_values();
    check_absent();
    check_rate(requirements);
    if (check_coverage()) check_gaps(requirements);
    power_.energy_j = integrate(points_, window_);
    check_counter();
    check_clock();
    check_throttling();
    return power_;
  }

 private:
  bool is_inside(const Sample& s) const { return s.ns >= window_.begin_ns && s.ns <= window_.end_ns; }
  double since_begin(int64_t ns) const {
    return static_cast<double>(ns - window_.begin_ns) / base::kNanosecondsPerSecond;
  }

  void report(diag::RuleId rule, uint32_t line, std::string message, std::string help = {}) {
    out_.add(diag::make_at(rule, {.file = capture_.file, .line = line, .column = line == 0 ? 0u : 1u},
                           fmt::format("{}: {}", power_.name, message), std::move(help)));
  }

  bool check_order() {
    for (size_t i = 1; i < gpu_.samples.size(); ++i) {
      const Sample& former = gpu_.samples[i - 1];
      const Sample& s = gpu_.samples[i];
      if (s.ns > former.ns) continue;
      report(rule::power_time_order, s.line,
             s.ns == former.ns
                 ? fmt::format("the same time as in line {}", former.line)
                 : fmt::format("{:.3f} s before the sample of line {}",
                               static_cast<double>(former.ns - s.ns) / base::kNanosecondsPerSecond, former.line),
             "record on a clock that is not set meanwhile, one sample of a GPU at a time");
      return false;
    }
    return true;
  }

  void check_values() {
    int64_t absurd = 0;
    const Sample* first = nullptr;
    for (const Sample* s : inside_) {
      const bool bad_power = s->power_w && (*s->power_w <= 0 || *s->power_w > kMostPowerW);
      const bool bad_clock = s->sm_clock_mhz && (*s->sm_clock_mhz < 0 || *s->sm_clock_mhz > kMostSmClockMhz);
      if (!bad_power && !bad_clock) continue;
      if (++absurd == 1) first = s;
    }
    if (first == nullptr) return;
    const std::string shown =
        fmt::format("{} W, SM clock {} MHz", first->power_w ? fmt::format("{}", *first->power_w) : "-",
                    first->sm_clock_mhz ? fmt::format("{}", *first->sm_clock_mhz) : "-");
    report(rule::power_absurd, first->line,
           fmt::format("{} of {} samples inside the window have values that no GPU has, the first is {}", absurd,
                       inside_.size(), shown));
  }

  void check_absent() {
    const Sample* first = nullptr;
    for (const Sample* s : inside_) {
      if (s->power_w) continue;
      if (++power_.without_value == 1) first = s;
    }
    power_.samples = static_cast<int64_t>(inside_.size()) - power_.without_value;
    if (first == nullptr) return;
    const bool few =
        static_cast<double>(power_.without_value) <= kMostAbsentShare * static_cast<double>(inside_.size());
    diag::Diagnostic d = diag::make_at(
        rule::power_no_value, {.file = capture_.file, .line = first->line, .column = first->line == 0 ? 0u : 1u},
        fmt::format("{}: {} of {} samples inside the window have no power value", power_.name, power_.without_value,
                    inside_.size()));
    if (few) d.severity = diag::Severity::kWarning;
    out_.add(std::move(d));
  }

  void check_rate(const Requirements& requirements) {
    const double seconds = window_.seconds();
    constexpr int64_t kLeastSamples = 2;
    if (power_.samples < kLeastSamples) {
      report(rule::power_too_few, 0,
             fmt::format("{} sample{} inside the window of {:.3f} s, expected at least {}", power_.samples,
                         power_.samples == 1 ? "" : "s", seconds, kLeastSamples),
             "sample at 10 Hz or more: `nvidia-smi -lms 100`");
    } else if (static_cast<double>(power_.samples + 1) / seconds < requirements.least_hz) {
      report(rule::power_too_few, 0,
             fmt::format("{:.1f} samples a second inside the window, expected at least {:g}",
                         static_cast<double>(power_.samples) / seconds, requirements.least_hz));
    }
  }

  bool check_coverage() {
    if (points_.empty()) {
      report(rule::power_not_covered, 0, "there is no power value");
      return false;
    }
    const bool late = points_.front().ns > window_.begin_ns;
    const bool early = points_.back().ns < window_.end_ns;
    if (late)
      report(rule::power_not_covered, 0,
             fmt::format("the first power value is {:.3f} s after the window begins", since_begin(points_.front().ns)),
             "begin to sample at least 2 s before the first request");
    if (early)
      report(rule::power_not_covered, 0,
             fmt::format("the last power value is {:.3f} s before the window ends",
                         static_cast<double>(window_.end_ns - points_.back().ns) / base::kNanosecondsPerSecond),
             "sample until at least 2 s after the last reply");
    return !late && !early;
  }

  void check_gaps(const Requirements& requirements) {
    int64_t longest = 0;
    int64_t begins_at = 0;
    for (size_t i = 1; i < points_.size(); ++i) {
      if (points_[i].ns <= window_.begin_ns || points_[i - 1].ns >= window_.end_ns) continue;
      const int64_t gap = points_[i].ns - points_[i - 1].ns;
      if (gap <= longest) continue;
      longest = gap;
      begins_at = points_[i - 1].ns;
    }
    power_.longest_gap_s = static_cast<double>(longest) / base::kNanosecondsPerSecond;
    if (power_.longest_gap_s > requirements.longest_gap_s)
      report(rule::power_gap, 0,
             fmt::format("no power value for {:.3f} s, {:.3f} s into the window; at most {:g} s are accepted",
                         power_.longest_gap_s, since_begin(begins_at), requirements.longest_gap_s));
  }

  void check_counter() {
    const auto begin = value_at(counter_, window_.begin_ns);
    const auto end = value_at(counter_, window_.end_ns);
    if (!begin || !end || *end < *begin) return;
    power_.counter_energy_j = *end - *begin;
    if (!power_.energy_j || window_.seconds() < kLeastCounterWindowS) return;
    if (std::abs(*power_.energy_j - *power_.counter_energy_j) > kCounterTolerance * *power_.counter_energy_j)
      report(rule::power_counter, 0,
             fmt::format("{:.1f} J by the power samples and {:.1f} J by the energy counter, more than {:g} % apart",
                         *power_.energy_j, *power_.counter_energy_j, kCounterTolerance * 100));
  }

  void check_clock() {
    std::vector<Point> clocks;
    for (const Sample* s : inside_)
      if (s->sm_clock_mhz && *s->sm_clock_mhz > 0) clocks.push_back({s->ns, *s->sm_clock_mhz});
    if (clocks.empty()) return;
    ClockTrend trend{.start_mhz = clocks.front().value, .end_mhz = clocks.back().value};
    trend.drop_percent = percent(trend.start_mhz - trend.end_mhz, trend.start_mhz);
    trend.decays = clocks.size() >= kLeastTrendSamples && trend.drop_percent >= kDecayPercent &&
                   correlation(clocks) <= kDecayCorrelation;
    power_.clock = trend;
    if (trend.decays)
      report(rule::power_clock_decay, 0,
             fmt::format("the SM clock falls steadily from {:g} to {:g} MHz inside the window ({:.1f} %)",
                         trend.start_mhz, trend.end_mhz, trend.drop_percent),
             "do not compare this point with one that was not throttled; look at cooling and power limit, warm up "
             "until the clock is steady, and measure again");
  }

  void check_throttling() {
    int64_t slowed = 0, capped = 0, known = 0;
    for (const Sample* s : inside_) {
      if (!s->throttle_reasons) continue;
      ++known;
      power_.throttle_reasons |= *s->throttle_reasons;
      if ((*s->throttle_reasons & kSlowdowns) != 0) ++slowed;
      if ((*s->throttle_reasons & kSoftwarePowerCap) != 0) ++capped;
    }
    power_.throttle_known = known != 0;
    if (slowed != 0)
      report(rule::power_throttled, 0,
             fmt::format("the clocks were slowed down in {} of {} samples inside the window: {}", slowed, known,
                         throttle_text(power_.throttle_reasons & kSlowdowns)),
             "look at temperature, cooling and power supply of the node, and measure again");
    if (capped != 0)
      report(rule::power_capped, 0,
             fmt::format("at its power limit in {} of {} samples inside the window", capped, known));
  }

  const Capture& capture_;
  const Gpu& gpu_;
  const Span& window_;
  diag::Diagnostics& out_;
  GpuPower power_;
  std::vector<Point> points_;   // power
  std::vector<Point> counter_;  // energy
  std::vector<const Sample*> inside_;
};

void check_count(const Capture& capture, const Window& window, diag::Diagnostics& out) {
  const auto seen = static_cast<int64_t>(capture.gpus.size());
  if (!window.expected_gpus || *window.expected_gpus == seen) return;
  std::string names;
  for (const Gpu& gpu : capture.gpus) names += fmt::format("{}{}", names.empty() ? "" : ", ", gpu.name());
  constexpr size_t kShownNames = 200;
  if (names.size() > kShownNames) names = names.substr(0, kShownNames) + "...";
  out.add(diag::make_at(rule::power_gpu_count, {.file = capture.file},
                        fmt::format("{} GPUs were sampled ({}), expected {}", seen, names, *window.expected_gpus),
                        seen > *window.expected_gpus ? "leave out GPUs that the engine did not use" : ""));
}

template <class T>
json value_or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json throttle_json(const GpuPower& gpu) {
  return gpu.throttle_known ? json(fmt::format("0x{:016x}", gpu.throttle_reasons)) : json(nullptr);
}

json trend_json(const std::optional<ClockTrend>& trend) {
  if (!trend)
    return {{"clock_start", nullptr}, {"clock_end", nullptr}, {"drop_pct", nullptr}, {"clock_decays", nullptr}};
  return {{"clock_start", trend->start_mhz},
          {"clock_end", trend->end_mhz},
          {"drop_pct", trend->drop_percent},
          {"clock_decays", trend->decays}};
}

json gpu_json(const GpuPower& gpu, bool valid) {
  json out = trend_json(gpu.clock);
  out["gpu"] = gpu.name;
  out["samples"] = gpu.samples;
  out["samples_without_value"] = gpu.without_value;
  out["longest_gap_s"] = gpu.longest_gap_s;
  out["energy_j"] = valid ? value_or_null(gpu.energy_j) : json(nullptr);
  out["counter_energy_j"] = valid ? value_or_null(gpu.counter_energy_j) : json(nullptr);
  out["throttle_reasons"] = throttle_json(gpu);
  return out;
}

}  // namespace

std::vector<std::string> PowerReport::reasons() const {
  std::vector<std::string> texts;
  for (const diag::Diagnostic& d : findings.items())
    if (d.severity == diag::Severity::kError) texts.push_back(d.message);
  return texts;
}

std::optional<double> PowerReport::total_energy_j() const {
  if (!valid() || gpus.empty()) return std::nullopt;
  std::vector<double> parts;
  for (const GpuPower& gpu : gpus) {
    if (!gpu.energy_j) return std::nullopt;
    parts.push_back(*gpu.energy_j);
  }
  return stats::stable_sum(parts);
}

std::optional<double> PowerReport::average_total_power_w() const {
  const auto energy = total_energy_j();
  if (!energy || !window) return std::nullopt;
  return *energy / window->seconds();
}

std::optional<double> PowerReport::joules_per_output_token() const {
  const auto energy = total_energy_j();
  if (!energy || !output_tokens) return std::nullopt;
  return *energy / static_cast<double>(*output_tokens);
}

const GpuPower* PowerReport::slowest_trend() const {
  const GpuPower* slowest = nullptr;
  for (const GpuPower& gpu : gpus)
    if (gpu.clock && (slowest == nullptr || gpu.clock->drop_percent > slowest->clock->drop_percent)) slowest = &gpu;
  return slowest;
}

uint64_t PowerReport::throttle_reasons() const {
  uint64_t bits = 0;
  for (const GpuPower& gpu : gpus) bits |= gpu.throttle_reasons;
  return bits;
}

PowerReport evaluate(const Capture& capture, const Window& window, const Requirements& requirements) {
  PowerReport report{
      .window = window.on(capture.clock), .output_tokens = window.output_tokens, .gpus = {}, .findings = {}};
  check_count(capture, window, report.findings);
  if (!report.window) {
    report.findings.add(diag::make_at(
        rule::power_clock, {.file = capture.file},
        fmt::format("the samples are of the {}, and the window states no times of it", clock_name(capture.clock)),
        "state the window on the clock of the samples: with a time zone or as Unix "
        "seconds where the samples have it, without where they have none"));
    return report;
  }
  for (const Gpu& gpu : capture.gpus)
    report.gpus.push_back(GpuCheck(capture, gpu, *report.window, report.findings).run(requirements));
  report.findings.normalise();
  return report;
}

json values_json(const PowerReport& report) {
  const auto energy = report.total_energy_j();
  const auto power = report.average_total_power_w();
  const GpuPower* slowest = report.slowest_trend();
  json out = trend_json(slowest != nullptr ? slowest->clock : std::nullopt);
  json energies = json::array();
  json gpus = json::array();
  bool throttle_known = !report.gpus.empty();
  for (const GpuPower& gpu : report.gpus) {
    if (energy) energies.push_back(*gpu.energy_j);
    gpus.push_back(gpu_json(gpu, report.valid()));
    throttle_known = throttle_known && gpu.throttle_known;
  }
  out["window_s"] = report.window ? json(report.window->seconds()) : json(nullptr);
  out["energy_j_per_gpu"] = energy ? std::move(energies) : json(nullptr);
  out["total_energy_j"] = value_or_null(energy);
  out["avg_total_power_w"] = value_or_null(power);
  out["avg_power_per_gpu_w"] = power ? json(*power / static_cast<double>(report.gpus.size())) : json(nullptr);
  out["joules_per_output_token"] = value_or_null(report.joules_per_output_token());
  out["throttling"] = throttle_known ? json(throttle_text(report.throttle_reasons())) : json(nullptr);
  out["gpus"] = std::move(gpus);
  return out;
}

}  // namespace sweep::telemetry
