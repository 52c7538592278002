#include "orchestrator/engine/decode_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "orchestrator/base/check.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/engine/decode_log_line.h"
#include "orchestrator/engine/json_stats.h"

namespace sweep::engine {

namespace {

constexpr int kYearless = 2000;        // of logs that write no year
constexpr int kLastRolledYear = 2100;  // a log that runs back and forth does not count for ever
constexpr int kAYearBack = -600;       // as LogTime::day: from December to January

// What only the windows of one engine hold.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kMarks{
    {{"SpecDecoding metrics: ", "vllm"}, {", accept len: ", "sglang"}, {"\"decode_window\"", "embedded"}}};

base::Unexpected<diag::Diagnostic> malformed(const LogSource& source, uint32_t line, std::string message,
                                             std::string help) {
  return diag::fail(diag::make_at(diag::rule::engine_malformed_log, {.file = source.file, .line = line},
                                  std::move(message), std::move(help)));
}

// Calls `take` with each line and its number, from 1.
template <class Take>
diag::Result<base::Done> each_line(std::string_view text, const Take& take) {
  for (uint32_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (auto taken = take(line, number); !taken) return taken;
  }
  return base::Done{};
}

// The log's clock, advanced by the times of its lines. A line without one was written when the last one with one was.
class LogClock {
 public:
  explicit LogClock(bool has_years) : has_years_(has_years) {}

  void advance(std::optional<LogTime> time);
  const std::optional<LogTime>& now() const { return now_; }

 private:
  bool has_years_;
  int year_ = kYearless;
  std::optional<LogTime> now_;
};

void LogClock::advance(std::optional<LogTime> time) {
  if (!time) return;
  if (has_years_) {
    if (!time->year) return;  // of a library that writes other times into the same log
  } else {
    if (now_ && time->day.value_or(0) - now_->day.value_or(0) < kAYearBack && year_ < kLastRolledYear) ++year_;
    time->year = year_;
  }
  now_ = time;
}

class LogReader {
 public:
  explicit LogReader(const LogSource& source) : source_(source) {}

  // Twice through the text: an interval can be placed only once the log's days are known, and nothing that a log holds
  // needs to be kept until then.
  diag::Result<DecodeLog> read(const LogInterval& interval);

 private:
  LogClock clock() const { return LogClock(source_.engine != "vllm"); }
  void look_through();
  // Where an end of the interval lies on the log's clock.
  diag::Result<std::optional<int64_t>> place(std::optional<LogTime> time, std::string_view option) const;
  bool is_inside(const ParsedLine& parsed, const std::optional<LogTime>& now, std::string_view line,
                 uint32_t number) const;
  diag::Result<base::Done> take_line(std::string_view line, uint32_t number, LogClock& clock);
  diag::Result<base::Done> take_window(ParsedLine& parsed, std::string_view line, uint32_t number);

  const LogSource& source_;
  DecodeLog log_;
  std::optional<LogTime> first_;
  std::optional<LogTime> last_;
  std::optional<int64_t> from_;
  std::optional<int64_t> to_;
  std::optional<uint64_t> from_byte_;
  std::optional<uint64_t> to_byte_;
};

void LogReader::look_through() {
  LogClock running = clock();
  const auto looked = each_line(source_.text, [&](std::string_view line, uint32_t number) -> diag::Result<base::Done> {
    // The bundled engine's lines have their times inside their documents.
    running.advance(source_.engine == "embedded" ? parse_log_line(line, source_.engine).time : time_in_line(line));
    if (!first_) first_ = running.now();
    if (tells_of_readiness(line)) log_.ready_line = number;
    return base::Done{};
  });
  SWEEPCTL_CHECK(looked.has_value());
  last_ = running.now();
  log_.has_times = first_.has_value();
}

diag::Result<std::optional<int64_t>> LogReader::place(std::optional<LogTime> time, std::string_view option) const {
  if (!time) return std::optional<int64_t>();
  const auto fail = [&](std::string message, std::string help) {
    return malformed(source_, 0, std::move(message), std::move(help));
  };
  if (!first_)
    return fail(fmt::format("no line has a time, so that {} cannot be applied", option),
                "leave it out: then all of the log counts");
  if (time->utc && source_.engine != "embedded")
    return fail(fmt::format("the log's clock has no zone, so that {} in Unix time cannot be applied", option),
                "give the time as the log writes it");
  if (!time->day) {
    if (first_->day != last_->day || first_->year != last_->year)
      return fail(fmt::format("{} has no date, and the log covers more than a day", option),
                  "give the date, too, as the log writes it");
    time->day = first_->day;
    time->year = first_->year;
  }
  if (source_.engine == "vllm" || !time->year) time->year = first_->year;
  return std::optional(time->ns());
}

bool LogReader::is_inside(const ParsedLine& parsed, const std::optional<LogTime>& now, std::string_view line,
                          uint32_t number) const {
  const auto offset = static_cast<uint64_t>(line.data() - source_.text.data());
  if (from_byte_ && offset < *from_byte_) return false;
  if (to_byte_ && offset >= *to_byte_) return false;
  const std::optional<int64_t> written = now ? std::optional(now->ns()) : std::nullopt;
  const auto begin = parsed.window && parsed.window->begin_ns ? parsed.window->begin_ns : written;
  const bool from_ready = !from_ && !from_byte_ && log_.ready_line;
  if ((from_ && (!begin || *begin < *from_)) || (from_ready && number < *log_.ready_line)) return false;
  return !to_ || !written || *written <= *to_;
}

diag::Result<base::Done> LogReader::take_window(ParsedLine& parsed, std::string_view line, uint32_t number) {
  if (!parsed.problem.empty())
    return malformed(source_, number, fmt::format("{}: {}", parsed.problem, printable(line)),
                     "the log was cut or edited, or lines of several processes ran into one another");
  constexpr double kPrintedRounding = 0.005;
  const int64_t most = log_.draft_tokens.value_or(0) + 1;
  if (log_.draft_tokens && parsed.window->acceptance_length > static_cast<double>(most) + kPrintedRounding)
    return malformed(source_, number,
                     fmt::format("an acceptance length of {:.2f} with {} draft tokens, of which at most {} can be "
                                 "committed: {}",
                                 parsed.window->acceptance_length, *log_.draft_tokens, most, printable(line)),
                     "the log holds lines of another run, or was edited");
  parsed.window->line = number;
  log_.windows.push_back(std::move(*parsed.window));
  return base::Done{};
}

diag::Result<base::Done> LogReader::take_line(std::string_view line, uint32_t number, LogClock& running) {
  ParsedLine parsed = parse_log_line(line, source_.engine);
  running.advance(parsed.time);
  if (parsed.draft_tokens) log_.draft_tokens = parsed.draft_tokens;
  if (parsed.steps_per_window) log_.steps_per_window = parsed.steps_per_window;
  if (parsed.forced_length) log_.forced_length = parsed.forced_length;
  if (!is_inside(parsed, running.now(), line, number)) {
    if (parsed.window) ++log_.windows_outside;
    return base::Done{};
  }
  const auto keep = [&](LogLines& lines) {
    if (++lines.count <= kMostLogLines) lines.first.push_back({number, printable(line)});
  };
  if (tells_of_compilation(line)) keep(log_.compile_lines);
  if (tells_of_an_error(line)) keep(log_.error_lines);
  if (parsed.new_tokens) log_.new_tokens = log_.new_tokens.value_or(0) + *parsed.new_tokens;
  if (parsed.cached_tokens) log_.cached_tokens = log_.cached_tokens.value_or(0) + *parsed.cached_tokens;
  if (!parsed.window && parsed.problem.empty()) return base::Done{};
  if (parsed.window && !parsed.window->end_ns && running.now()) parsed.window->end_ns = running.now()->ns();
  return take_window(parsed, line, number);
}

diag::Result<DecodeLog> LogReader::read(const LogInterval& interval) {
  look_through();
  const auto from = place(interval.from, "--from");
  if (!from) return diag::fail(from.error());
  const auto to = place(interval.to, "--to");
  if (!to) return diag::fail(to.error());
  from_ = *from;
  to_ = *to;
  from_byte_ = interval.from_byte;
  to_byte_ = interval.to_byte;
  LogClock running = clock();
  const auto taken =
      each_line(source_.text, [&](std::string_view line, uint32_t number) { return take_line(line, number, running); });
  if (!taken) return diag::fail(taken.error());
  if (log_.windows.empty() && log_.windows_outside == 0)
    for (const auto& [mark, engine] : kMarks)
      if (source_.engine != engine && source_.text.find(mark) != std::string_view::npos) log_.looks_like = engine;
  return std::move(log_);
}

// Documents have no times: each record is a window, or one figure stands for all.
diag::Result<DecodeLog> from_json_stats(const LogSource& source) {
  const auto stats = parse_json_stats(source.text, source.engine, source.file);
  if (!stats) return diag::fail(stats.error());
  DecodeLog log{.since_start = stats->since_start};
  const auto add = [&](const SpecCounters& counters) {
    DecodeWindow window{.line = 1,
                        .acceptance_length = counters.acceptance_length().value_or(0),
                        .steps = counters.drafts,
                        .accepted = counters.accepted,
                        .drafted = counters.draft_tokens,
                        .per_position = counters.per_position()};
    if (window.acceptance_length >= 1) {
      log.windows.push_back(std::move(window));
    } else {
      log.unassigned_drafted = log.unassigned_drafted.value_or(0) + counters.draft_tokens.value_or(0);
      log.unassigned_accepted = log.unassigned_accepted.value_or(0) + counters.accepted.value_or(0);
    }
  };
  for (const double length : stats->mean_lengths) log.windows.push_back({.line = 1, .acceptance_length = length});
  if (stats->since_start && stats->counters.drafts) add(stats->counters);
  for (const SpecCounters& record : stats->records) add(record);
  return log;
}

}  // namespace

diag::Result<DecodeLog> read_decode_log(const LogSource& source, const LogInterval& interval) {
  if (!looks_like_json_stats(source.text, source.engine)) return LogReader(source).read(interval);
  if (interval.from || interval.to)
    return malformed(source, 0, "the document has no times, so that no interval can be cut out of it",
                     "leave --from and --to out");
  return from_json_stats(source);
}

WindowSummary summarise(const std::vector<DecodeWindow>& windows) {
  WindowSummary summary{.windows = static_cast<int64_t>(windows.size())};
  if (windows.empty()) return summary;
  double sum = 0;
  bool counted = true;
  summary.min = summary.max = windows.front().acceptance_length;
  summary.steps = summary.accepted = summary.drafted = 0;
  for (const DecodeWindow& window : windows) {
    sum += window.acceptance_length;
    summary.min = std::min(*summary.min, window.acceptance_length);
    summary.max = std::max(*summary.max, window.acceptance_length);
    counted = counted && window.steps && window.accepted;
    summary.steps = *summary.steps + window.steps.value_or(0);
    summary.accepted = *summary.accepted + window.accepted.value_or(0);
    if (!window.drafted)
      summary.drafted.reset();
    else if (summary.drafted)
      summary.drafted = *summary.drafted + *window.drafted;
  }
  summary.mean = sum / static_cast<double>(windows.size());
  if (!counted || *summary.steps <= 0) {
    summary.steps.reset();
    summary.accepted.reset();
    return summary;
  }
  summary.length = 1.0 + static_cast<double>(*summary.accepted) / static_cast<double>(*summary.steps);
  const size_t positions = windows.front().per_position.size();
  std::vector<double> rates(positions);
  for (const DecodeWindow& window : windows) {
    if (window.per_position.size() != positions) return summary;
    for (size_t i = 0; i < positions; ++i) rates[i] += window.per_position[i] * static_cast<double>(*window.steps);
  }
  for (double& rate : rates) rate /= static_cast<double>(*summary.steps);
  summary.per_position = std::move(rates);
  return summary;
}

}  // namespace sweep::engine
