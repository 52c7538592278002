#include "orchestrator/engine/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <unordered_map>

#include "orchestrator/base/utf8.h"
#include "orchestrator/diag/rules/engine.h"

namespace sweep::engine {

namespace {

constexpr size_t kMostShown = 60;  // of a line in a message

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_character(char c) {
  return is_letter(c) || c == ':' || (c >= '0' && c <= '9');
}
bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

void skip_blanks(std::string_view& text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
}

std::string_view take_word(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && !is_blank(text[end])) ++end;
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

// A name of a metric or (without colons) of a label; empty if none begins here.
std::string_view take_name(std::string_view& text) {
  if (text.empty() || (!is_letter(text.front()) && text.front() != ':')) return {};
  size_t end = 1;
  while (end < text.size() && is_name_character(text[end])) ++end;
  const std::string_view name = text.substr(0, end);
  text.remove_prefix(end);
  return name;
}

std::optional<double> number_in(std::string_view word) {
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (word == "+Inf" || word == "Inf") return std::numeric_limits<double>::infinity();
  if (word == "-Inf") return -std::numeric_limits<double>::infinity();
  if (word.starts_with('+') && !word.starts_with("+-")) word.remove_prefix(1);
  if (word.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<MetricType> parse_type(std::string_view word) {
  if (word == "counter") return MetricType::kCounter;
  if (word == "gauge") return MetricType::kGauge;
  if (word == "histogram") return MetricType::kHistogram;
  if (word == "summary") return MetricType::kSummary;
  // The last five are OpenMetrics' own.
  for (const std::string_view other : {"untyped", "unknown", "info", "stateset", "gaugehistogram"})
    if (word == other) return MetricType::kUntyped;
  return std::nullopt;
}

class PageParser {
 public:
  explicit PageParser(std::string file) { page_.file = std::move(file); }

  diag::Result<MetricsPage> parse(std::string_view text);

 private:
  base::Unexpected<diag::Diagnostic> malformed(std::string message) const {
    return diag::fail(diag::make_at(diag::rule::engine_malformed_metrics, {.file = page_.file, .line = line_},
                                    std::move(message), "record the page again, whole, as the engine sends it"));
  }
  diag::Result<base::Done> take_line(std::string_view line);
  diag::Result<base::Done> take_comment(std::string_view line);
  diag::Result<base::Done> take_series(std::string_view line);
  diag::Result<base::Done> take_labels(std::string_view& rest, Series& series);
  diag::Result<std::string> take_label_value(std::string_view& rest);
  diag::Result<base::Done> take_value(std::string_view rest, Series& series);

  MetricsPage page_;
  uint32_t line_ = 0;
  bool ended_ = false;  // by # EOF
  std::map<std::string, MetricType, std::less<>> types_;
  std::unordered_map<std::string, uint32_t> seen_;  // name and labels to line
};

diag::Result<MetricsPage> PageParser::parse(std::string_view text) {
  if (text.size() > kMostMetricsBytes)
    return malformed(
        fmt::format("the page has {} bytes, more than the {} that any engine's has", text.size(), kMostMetricsBytes));
  while (!text.empty()) {
    ++line_;
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return malformed("the page ends within its last line, so it was cut");
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (const auto taken = take_line(line); !taken) return diag::fail(taken.error());
  }
  for (auto& [name, type] : types_) page_.types.push_back({name, type});
  return std::move(page_);
}

diag::Result<base::Done> PageParser::take_line(std::string_view line) {
  if (!base::is_utf8(line)) return malformed("the line is not UTF-8");
  if (line.find('\0') != std::string_view::npos) return malformed("the line holds a zero byte");
  skip_blanks(line);
  if (line.empty()) return base::Done{};
  if (ended_) return malformed("there is more after \"# EOF\"");
  return line.front() == '#' ? take_comment(line.substr(1)) : take_series(line);
}

diag::Result<base::Done> PageParser::take_comment(std::string_view line) {
  skip_blanks(line);
  const std::string_view keyword = take_word(line);
  ended_ = keyword == "EOF";
  if (keyword != "TYPE" && keyword != "HELP") return base::Done{};
  skip_blanks(line);
  const std::string_view name = take_name(line);
  if (name.empty()) return malformed(fmt::format("\"# {}\" names no metric", keyword));
  if (keyword == "HELP") return base::Done{};
  skip_blanks(line);
  const std::string_view word = take_word(line);
  const auto type = parse_type(word);
  if (!type) return malformed(fmt::format("\"{}\" is no type of a metric", word.substr(0, kMostShown)));
  if (!types_.emplace(name, *type).second) return malformed(fmt::format("a second type for \"{}\"", name));
  return base::Done{};
}

diag::Result<base::Done> PageParser::take_series(std::string_view line) {
  const std::string_view whole = line.substr(0, kMostShown);
  Series series{.name = std::string(take_name(line)), .line = line_};
  if (series.name.empty()) return malformed(fmt::format("\"{}\" does not begin with the name of a metric", whole));
  skip_blanks(line);
  if (line.starts_with('{')) {
    line.remove_prefix(1);
    if (const auto taken = take_labels(line, series); !taken) return taken;
  }
  if (const auto taken = take_value(line, series); !taken) return taken;
  std::string key = series.name;
  for (const Label& label : series.labels) key += fmt::format("\1{}\1{}", label.name, label.value);
  if (const auto [first, is_new] = seen_.emplace(std::move(key), line_); !is_new)
    return malformed(fmt::format("\"{}\" with these labels was on line {} already", series.name, first->second));
  page_.series.push_back(std::move(series));
  return base::Done{};
}

// Behind the opening brace, up to behind the closing one.
diag::Result<base::Done> PageParser::take_labels(std::string_view& rest, Series& series) {
  while (true) {
    skip_blanks(rest);
    if (rest.starts_with('}')) break;
    const std::string_view name = take_name(rest);
    if (name.empty() || name.find(':') != std::string_view::npos)
      return malformed(fmt::format("the labels of \"{}\" hold something that is no label, or do not end", series.name));
    skip_blanks(rest);
    if (!rest.starts_with('=')) return malformed(fmt::format("label \"{}\" has no value", name));
    rest.remove_prefix(1);
    skip_blanks(rest);
    auto value = take_label_value(rest);
    if (!value) return diag::fail(std::move(value).error());
    series.labels.push_back({std::string(name), std::move(*value)});
    skip_blanks(rest);
    if (rest.starts_with(','))
      rest.remove_prefix(1);
    else if (!rest.starts_with('}'))
      return malformed(fmt::format("after label \"{}\": expected a comma or the closing brace", name));
  }
  rest.remove_prefix(1);
  std::sort(series.labels.begin(), series.labels.end(), [](const Label& a, const Label& b) { return a.name < b.name; });
  for (size_t i = 1; i < series.labels.size(); ++i)
    if (series.labels[i].name == series.labels[i - 1].name)
      return malformed(fmt::format("label \"{}\" is there twice", series.labels[i].name));
  return base::Done{};
}

diag::Result<std::string> PageParser::take_label_value(std::string_view& rest) {
  if (!rest.starts_with('"')) return malformed("a label's value is not in quotes");
  std::string value;
  for (size_t i = 1; i < rest.size(); ++i) {
    const char c = rest[i];
    if (c == '"') {
      rest.remove_prefix(i + 1);
      return value;
    }
    if (c != '\\') {
      value += c;
      continue;
    }
    const char escaped = ++i < rest.size() ? rest[i] : '\0';
    if (escaped != '\\' && escaped != '"' && escaped != 'n')
      return malformed("a label's value has an escape other than \\\\, \\\" and \\n");
    value += escaped == 'n' ? '\n' : escaped;
  }
  return malformed("a label's value does not end");
}

diag::Result<base::Done> PageParser::take_value(std::string_view rest, Series& series) {
  skip_blanks(rest);
  const std::string_view word = take_word(rest);
  const auto value = number_in(word);
  if (!value)
    return malformed(fmt::format("the value of \"{}\" is no number: \"{}\"", series.name, word.substr(0, kMostShown)));
  series.value = *value;
  skip_blanks(rest);
  if (rest.empty() || rest.starts_with('#')) return base::Done{};  // an exemplar begins with #
  const std::string_view stamp = take_word(rest);
  int64_t milliseconds = 0;
  const auto [end, error] = std::from_chars(stamp.data(), stamp.data() + stamp.size(), milliseconds);
  if (error == std::errc() && end == stamp.data() + stamp.size())
    series.timestamp_ms = milliseconds;
  else if (!number_in(stamp))  // OpenMetrics: seconds with a fraction
    return malformed(fmt::format("after the value of \"{}\" there is \"{}\", which is no time stamp", series.name,
                                 stamp.substr(0, kMostShown)));
  skip_blanks(rest);
  if (!rest.empty() && !rest.starts_with('#'))
    return malformed(fmt::format("there is more after the time stamp of \"{}\"", series.name));
  return base::Done{};
}

}  // namespace

std::string_view Series::label(std::string_view label_name) const {
  for (const Label& label : labels)
    if (label.name == label_name) return label.value;
  return {};
}

MetricType MetricsPage::type_of(std::string_view name) const {
  const auto find = [&](std::string_view wanted) -> std::optional<MetricType> {
    const auto at = std::lower_bound(types.begin(), types.end(), wanted,
                                     [](const Declared& declared, std::string_view n) { return declared.name < n; });
    return at != types.end() && at->name == wanted ? std::optional(at->type) : std::nullopt;
  };
  constexpr std::string_view kTotal = "_total";
  if (const auto type = find(name)) return *type;
  if (name.ends_with(kTotal))
    if (const auto type = find(name.substr(0, name.size() - kTotal.size()))) return *type;
  return MetricType::kUntyped;
}

diag::Result<MetricsPage> parse_metrics(std::string_view text, std::string file) {
  return PageParser(std::move(file)).parse(text);
}

}  // namespace sweep::engine
