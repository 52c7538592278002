#include "orchestrator/engine/decode_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/base/utf8.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/engine/decode_log_line.h"
#include "orchestrator/engine/json_stats.h"

namespace sweep::engine {

namespace {

constexpr size_t kMostShown = 160;  // of a line in a message
constexpr int kYearless = 2000;     // of logs that write no year
constexpr int kAYearBack = -600;    // as LogTime::day: from December to January

// What only the windows of one engine hold.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kMarks{
    {{"SpecDecoding metrics: ", "vllm"}, {", accept len: ", "sglang"}, {"\"decode_window\"", "embedded"}}};

base::Unexpected<diag::Diagnostic> malformed(const LogSource& source, uint32_t line, std::string message,
                                             std::string help) {
  return diag::fail(diag::make_at(diag::rule::engine_malformed_log, {.file = source.file, .line = line},
                                  std::move(message), std::move(help)));
}

std::string printable(std::string_view line) {
  std::string text = base::valid_utf8(line.substr(0, kMostShown));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return line.size() > kMostShown ? text + "..." : text;
}

// A line that says something, and when.
struct Event {
  uint32_t line = 0;
  std::optional<int64_t> ns;
  std::string_view text;
  std::optional<DecodeWindow> window;
  std::string problem;
  std::optional<int64_t> new_tokens;
  std::optional<int64_t> cached_tokens;
  bool compiles = false;
  bool fails = false;
};

class LogReader {
 public:
  explicit LogReader(const LogSource& source) : source_(source) {}

  diag::Result<DecodeLog> read(const LogInterval& interval);

 private:
  void take_line(std::string_view line, uint32_t number);
  void advance_clock(LogTime time);
  // Where an end of the interval lies on the log's clock.
  diag::Result<int64_t> place(LogTime time, std::string_view option) const;
  diag::Result<base::Done> take_event(const Event& event);

  const LogSource& source_;
  DecodeLog log_;
  std::vector<Event> events_;
  std::optional<int64_t> now_ns_;  // a line without a time was written when the last one with a time was
  std::optional<LogTime> first_;
  std::optional<LogTime> last_;
  int year_ = kYearless;
};

void LogReader::advance_clock(LogTime time) {
  if (source_.engine == "vllm") {
    if (last_ && last_->day && time.day && *time.day - *last_->day < kAYearBack) ++year_;
    time.year = year_;
  } else if (!time.year) {
    return;  // of a library that writes other times into the same log
  }
  now_ns_ = time.ns();
  if (!first_) first_ = time;
  last_ = time;
}

void LogReader::take_line(std::string_view line, uint32_t number) {
  ParsedLine parsed = parse_log_line(line, source_.engine);
  if (parsed.time) advance_clock(*parsed.time);
  if (parsed.ready) log_.ready_line = number;
  if (parsed.draft_tokens) log_.draft_tokens = parsed.draft_tokens;
  if (parsed.steps_per_window) log_.steps_per_window = parsed.steps_per_window;
  if (parsed.forced_length) log_.forced_length = parsed.forced_length;
  Event event{.line = number,
              .ns = now_ns_,
              .text = line,
              .window = std::move(parsed.window),
              .problem = std::move(parsed.problem),
              .new_tokens = parsed.new_tokens,
              .cached_tokens = parsed.cached_tokens,
              .compiles = tells_of_compilation(line),
              .fails = tells_of_an_error(line)};
  if (event.window) {
    event.window->line = number;
    if (!event.window->end_ns) event.window->end_ns = now_ns_;
  }
  if (event.window || !event.problem.empty() || event.new_tokens || event.cached_tokens || event.compiles ||
      event.fails)
    events_.push_back(std::move(event));
}

diag::Result<int64_t> LogReader::place(LogTime time, std::string_view option) const {
  const auto fail = [&](std::string message, std::string help) {
    return malformed(source_, 0, std::move(message), std::move(help));
  };
  if (!first_)
    return fail(fmt::format("no line has a time, so that {} cannot be applied", option),
                "leave it out: then all of the log counts");
  if (time.utc && source_.engine != "embedded")
    return fail(fmt::format("the log's clock has no zone, so that {} in Unix time cannot be applied", option),
                "give the time as the log writes it");
  if (!time.day) {
    if (first_->day != last_->day || first_->year != last_->year)
      return fail(fmt::format("{} has no date, and the log covers more than a day", option),
                  "give the date, too, as the log writes it");
    time.day = first_->day;
    time.year = first_->year;
  }
  if (source_.engine == "vllm" || !time.year) time.year = first_->year;
  return time.ns();
}

diag::Result<base::Done> LogReader::take_event(const Event& event) {
  const int64_t most = log_.draft_tokens.value_or(0) + 1;
  if (!event.problem.empty())
    return malformed(source_, event.line, fmt::format("{}: {}", event.problem, printable(event.text)),
                     "the log was cut or edited, or lines of several processes ran into one another");
  if (event.window) {
    if (log_.draft_tokens && event.window->acceptance_length > static_cast<double>(most) + 0.005)
      return malformed(source_, event.line,
                       fmt::format("an acceptance length of {:.2f} with {} draft tokens, of which at most {} can be "
                                   "committed: {}",
                                   event.window->acceptance_length, *log_.draft_tokens, most, printable(event.text)),
                       "the log holds lines of another run, or was edited");
    log_.windows.push_back(*event.window);
  }
  if (event.new_tokens) log_.new_tokens = log_.new_tokens.value_or(0) + *event.new_tokens;
  if (event.cached_tokens) log_.cached_tokens = log_.cached_tokens.value_or(0) + *event.cached_tokens;
  if (event.compiles) log_.compile_lines.push_back({event.line, printable(event.text)});
  if (event.fails) log_.error_lines.push_back({event.line, printable(event.text)});
  return base::Done{};
}

diag::Result<DecodeLog> LogReader::read(const LogInterval& interval) {
  std::string_view rest = source_.text;
  for (uint32_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    take_line(line, number);
  }
  log_.has_times = first_.has_value();
  std::optional<int64_t> from, to;
  if (interval.from) {
    const auto placed = place(*interval.from, "--from");
    if (!placed) return diag::fail(placed.error());
    from = *placed;
  }
  if (interval.to) {
    const auto placed = place(*interval.to, "--to");
    if (!placed) return diag::fail(placed.error());
    to = *placed;
  }
  for (const Event& event : events_) {
    const std::optional<int64_t> begin = event.window && event.window->begin_ns ? event.window->begin_ns : event.ns;
    const bool early = from ? !begin || *begin < *from : log_.ready_line && event.line < *log_.ready_line;
    const bool late = to && event.ns && *event.ns > *to;
    if (early || late) {
      if (event.window) ++log_.windows_outside;
      continue;
    }
    if (const auto taken = take_event(event); !taken) return diag::fail(taken.error());
  }
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

std::vector<DecodeWindow> read_windows(const std::filesystem::path& log, int64_t begin_unix_ns, int64_t end_unix_ns) {
  std::vector<DecodeWindow> windows;
  const auto text = base::read_file(log, kMostLogBytes);
  if (!text) return windows;
  std::string_view rest = *text;
  for (uint32_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ParsedLine parsed = parse_log_line(line, "embedded");
    if (!parsed.window || *parsed.window->begin_ns < begin_unix_ns || *parsed.window->end_ns > end_unix_ns) continue;
    parsed.window->line = number;
    windows.push_back(std::move(*parsed.window));
  }
  return windows;
}

}  // namespace sweep::engine
