#include "orchestrator/telemetry/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "orchestrator/diag/rules/power.h"
#include "orchestrator/telemetry/times.h"

namespace sweep::telemetry {

namespace {

namespace rule = diag::rule;

enum class Field : uint8_t {
  kDateTime,
  kUnixSeconds,
  kMonotonicNs,
  kVersion,
  kHost,
  kIndex,
  kUuid,
  kPower,
  kEnergy,
  kSmClock,
  kMemoryClock,
  kTemperature,
  kMemoryUsed,
  kThrottle,
  kForeign,
};

struct ColumnName {
  std::string_view name;
  Field field;
  std::string_view unit;  // behind the name in brackets, and behind each value
};

// Of several columns of one field, the first of this list counts: power.draw is an average over a second on recent
// GPUs, which smears the ends of the window.
constexpr auto kColumns = std::to_array<ColumnName>({
    {"timestamp", Field::kDateTime, ""},
    {"timestamp_unix", Field::kUnixSeconds, ""},
    {"monotonic_ns", Field::kMonotonicNs, ""},
    {"schema_version", Field::kVersion, ""},
    {"hostname", Field::kHost, ""},
    {"index", Field::kIndex, ""},
    {"gpu_index", Field::kIndex, ""},
    {"uuid", Field::kUuid, ""},
    {"gpu_uuid", Field::kUuid, ""},
    {"power.draw.instant", Field::kPower, "W"},
    {"power.draw", Field::kPower, "W"},
    {"power.draw.average", Field::kPower, "W"},
    {"power_w", Field::kPower, ""},
    {"energy_j", Field::kEnergy, ""},
    {"clocks.current.sm", Field::kSmClock, "MHz"},
    {"clocks.sm", Field::kSmClock, "MHz"},
    {"sm_clock_mhz", Field::kSmClock, ""},
    {"clocks.current.memory", Field::kMemoryClock, "MHz"},
    {"clocks.mem", Field::kMemoryClock, "MHz"},
    {"memory_clock_mhz", Field::kMemoryClock, ""},
    {"temperature.gpu", Field::kTemperature, ""},
    {"temperature_c", Field::kTemperature, ""},
    {"memory.used", Field::kMemoryUsed, "MiB"},
    {"memory_used_bytes", Field::kMemoryUsed, ""},
    {"clocks_event_reasons.active", Field::kThrottle, ""},
    {"clocks_throttle_reasons.active", Field::kThrottle, ""},
    {"throttle_reasons", Field::kThrottle, ""},
    {"foreign_processes", Field::kForeign, ""},
});

constexpr size_t kMostProblems = 100;
constexpr size_t kShownCell = 40;
constexpr double kBytesPerMib = 1024.0 * 1024.0;

struct Cell {
  std::string_view text;  // without blanks around it
  uint32_t column = 1;    // of its first byte
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::vector<Cell> cells_of(std::string_view line) {
  std::vector<Cell> cells;
  size_t begin = 0;
  while (true) {
    const size_t end = std::min(line.find(',', begin), line.size());
    const std::string_view raw = line.substr(begin, end - begin);
    const std::string_view text = trimmed(raw);
    const size_t lead = text.empty() ? 0 : static_cast<size_t>(text.data() - raw.data());
    cells.push_back({text, static_cast<uint32_t>(begin + lead + 1)});
    if (end == line.size()) return cells;
    begin = end + 1;
  }
}

// "[N/A]", "[Not Supported]", "[Unknown Error]", "N/A" and nothing at all.
bool is_absent(std::string_view cell) {
  return cell.empty() || cell == "N/A" || (cell.starts_with('[') && cell.ends_with(']'));
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

template <class Integer>
std::optional<Integer> integer_of(std::string_view text, int base = 10) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A column that is read.
struct Column {
  size_t position = 0;
  const ColumnName* name = nullptr;
};

class CaptureReader {
 public:
  CaptureReader(const std::string& name, diag::Diagnostics& out) : name_(name), out_(out) { capture_.file = name; }

  std::optional<Capture> read(std::string_view text) {
    const bool ends_with_break = text.ends_with('\n');
    if (text.empty()) {
      report({"", 1}, "the file is empty, expected a header and samples");
      return std::nullopt;
    }
    while (!text.empty() && problems_ < kMostProblems) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      ++line_;
      if (line_ == 1) {
        if (!read_header(line)) return std::nullopt;
      } else {
        read_row(line, text.empty() && !ends_with_break);
      }
    }
    if (problems_ != 0) return std::nullopt;
    return finish();
  }

 private:
  void report(const Cell& cell, std::string message, std::string help = {}, diag::RuleId rule = rule::power_capture) {
    ++problems_;
    const auto length = static_cast<uint32_t>(std::max<size_t>(cell.text.size(), 1));
    out_.add(diag::make_at(rule,
                           {.file = name_, .line = line_, .column = cell.column, .end_column = cell.column + length},
                           std::move(message), std::move(help)));
  }

  bool has(Field field) const {
    return std::any_of(columns_.begin(), columns_.end(), [&](const Column& c) { return c.name->field == field; });
  }

  bool read_header(std::string_view line) {
    const std::vector<Cell> cells = cells_of(line);
    width_ = cells.size();
    std::map<std::string_view, size_t> seen;
    for (size_t i = 0; i < cells.size(); ++i) {
      std::string_view name = cells[i].text;
      std::string_view unit;
      if (const size_t bracket = name.find(" ["); bracket != std::string_view::npos && name.ends_with(']')) {
        unit = name.substr(bracket + 2, name.size() - bracket - 3);
        name = name.substr(0, bracket);
      }
      if (!seen.emplace(name, i).second)
        report(cells[i], fmt::format("column \"{}\" is there twice", name), "", rule::power_column);
      const auto* known =
          std::find_if(kColumns.begin(), kColumns.end(), [&](const ColumnName& c) { return c.name == name; });
      if (known == kColumns.end()) continue;
      if (!unit.empty() && unit != known->unit)
        report(cells[i],
               fmt::format("column \"{}\" is in \"{}\", expected {}", name, unit,
                           known->unit.empty() ? "no unit" : fmt::format("\"{}\"", known->unit)),
               "", rule::power_column);
      keep_best({i, known});
    }
    require_columns(cells.front());
    return problems_ == 0;
  }

  void keep_best(const Column& column) {
    const auto same = std::find_if(columns_.begin(), columns_.end(),
                                   [&](const Column& c) { return c.name->field == column.name->field; });
    if (same == columns_.end())
      columns_.push_back(column);
    else if (column.name < same->name)
      *same = column;
  }

  void require_columns(const Cell& first) {
    constexpr const char* kHelp =
        "record with `nvidia-smi --query-gpu=timestamp,index,uuid,power.draw.instant,clocks.current.sm,"
        "clocks_event_reasons.active --format=csv -lms 100`";
    const int times = int{has(Field::kDateTime)} + int{has(Field::kUnixSeconds)} + int{has(Field::kMonotonicNs)};
    if (times == 0)
      report(first, "no column of times: timestamp, timestamp_unix or monotonic_ns", kHelp, rule::power_column);
    if (times > 1) report(first, "several columns of times, expected one", "", rule::power_column);
    if (!has(Field::kPower))
      report(first, "no column of power: power.draw, power.draw.instant or power_w", kHelp, rule::power_column);
    if (!has(Field::kIndex) && !has(Field::kUuid))
      report(first, "no column that names the GPU: index or uuid", kHelp, rule::power_column);
    if (times == 1 && !has(Field::kDateTime))
      capture_.clock = has(Field::kMonotonicNs) ? Clock::kMonotonic : Clock::kUnix;
    clock_known_ = !has(Field::kDateTime);
  }

  void read_row(std::string_view line, bool may_be_cut) {
    const std::vector<Cell> cells = cells_of(line);
    if (cells.size() != width_) {
      if (may_be_cut && cells.size() < width_) {
        out_.add(diag::make_at(
            rule::power_cut, {.file = name_, .line = line_, .column = 1},
            fmt::format("the last line was cut off after {} of {} cells and is left out", cells.size(), width_)));
        return;
      }
      report({line, 1}, fmt::format("{} cells, expected {} as in the header", cells.size(), width_));
      return;
    }
    Row row;
    row.sample.line = line_;
    const size_t before = problems_;
    for (const Column& column : columns_) read_cell(cells[column.position], *column.name, row);
    if (problems_ == before) add(std::move(row), cells.front());
  }

  struct Row {
    std::string_view host, uuid;
    int64_t index = -1;
    Sample sample;
  };

  void wrong(const Cell& cell, const ColumnName& column, std::string_view expected) {
    std::string_view shown = cell.text.substr(0, kShownCell);
    report(cell, fmt::format("\"{}\" is \"{}\", expected {}", column.name, shown, expected));
  }

  // The cell without the unit of its column.
  static std::string_view value_of(const Cell& cell, const ColumnName& column) {
    std::string_view text = cell.text;
    if (!column.unit.empty() && text.ends_with(column.unit))
      text = trimmed(text.substr(0, text.size() - column.unit.size()));
    return text;
  }

  void read_number(const Cell& cell, const ColumnName& column, std::optional<double>& to) {
    if (is_absent(cell.text)) return;
    to = number_of(value_of(cell, column));
    if (!to)
      wrong(cell, column,
            column.unit.empty() ? "a number"
                                : fmt::format("a number of {}, such as \"700.00 {}\"", column.unit, column.unit));
  }

  template <class Integer>
  void read_count(const Cell& cell, const ColumnName& column, std::optional<Integer>& to) {
    if (is_absent(cell.text)) return;
    to = integer_of<Integer>(cell.text);
    if (!to || *to < 0) wrong(cell, column, "an integer of at least 0");
  }

  void read_cell(const Cell& cell, const ColumnName& column, Row& row) {
    Sample& s = row.sample;
    switch (column.field) {
      case Field::kDateTime:
        return read_date_time(cell, column, s);
      case Field::kUnixSeconds:
        if (const auto ns = parse_seconds(cell.text))
          s.ns = *ns;
        else
          wrong(cell, column, "Unix seconds with at most nine decimals");
        return;
      case Field::kMonotonicNs:
        if (const auto ns = integer_of<int64_t>(cell.text); ns && *ns >= 0)
          s.ns = *ns;
        else
          wrong(cell, column, "nanoseconds");
        return;
      case Field::kVersion:
        if (cell.text != "1") wrong(cell, column, "1, the only version known");
        return;
      case Field::kHost:
        row.host = cell.text;
        return;
      case Field::kIndex:
        if (const auto index = integer_of<int64_t>(cell.text); index && *index >= 0)
          row.index = *index;
        else
          wrong(cell, column, "the number of a GPU");
        return;
      case Field::kUuid:
        row.uuid = cell.text;
        if (is_absent(cell.text)) wrong(cell, column, "the UUID of a GPU");
        return;
      case Field::kPower:
        return read_number(cell, column, s.power_w);
      case Field::kEnergy:
        return read_number(cell, column, s.energy_j);
      case Field::kSmClock:
        return read_number(cell, column, s.sm_clock_mhz);
      case Field::kMemoryClock:
        return read_number(cell, column, s.memory_clock_mhz);
      case Field::kTemperature:
        return read_number(cell, column, s.temperature_c);
      case Field::kMemoryUsed:
        return read_memory(cell, column, s);
      case Field::kThrottle:
        return read_throttle(cell, column, s);
      case Field::kForeign:
        return read_count(cell, column, s.foreign_processes);
    }
  }

  void read_date_time(const Cell& cell, const ColumnName& column, Sample& s) {
    const auto point = parse_date_time(cell.text);
    if (!point) return wrong(cell, column, "a time such as \"2026/11/03 10:00:00.000\"");
    if (clock_known_ && point->clock != capture_.clock)
      return wrong(cell, column,
                   capture_.clock == Clock::kLocal ? "a time without a zone, as in the lines above"
                                                   : "a time with its zone, as in the lines above");
    capture_.clock = point->clock;
    clock_known_ = true;
    s.ns = point->ns;
  }

  void read_memory(const Cell& cell, const ColumnName& column, Sample& s) {
    if (column.unit.empty()) return read_count(cell, column, s.memory_used_bytes);
    std::optional<double> mib;
    read_number(cell, column, mib);
    constexpr double kMostMib = 1e12;
    if (mib && (*mib < 0 || *mib > kMostMib)) return wrong(cell, column, "an amount of memory");
    if (mib) s.memory_used_bytes = static_cast<int64_t>(*mib * kBytesPerMib);
  }

  void read_throttle(const Cell& cell, const ColumnName& column, Sample& s) {
    if (is_absent(cell.text)) return;
    if (cell.text.starts_with("0x")) s.throttle_reasons = integer_of<uint64_t>(cell.text.substr(2), 16);
    if (!s.throttle_reasons) wrong(cell, column, "bits such as \"0x0000000000000004\"");
  }

  void add(Row row, const Cell& first) {
    const auto [at, is_new] =
        gpus_.try_emplace({std::string(row.host), row.index, row.index < 0 ? std::string(row.uuid) : std::string()},
                          capture_.gpus.size());
    if (is_new) {
      if (capture_.gpus.size() == kMostGpus)
        return report(first, fmt::format("more than {} GPUs, which no measurement has", kMostGpus));
      capture_.gpus.push_back(
          {.host = std::string(row.host), .index = row.index, .uuid = std::string(row.uuid), .samples = {}});
    }
    Gpu& gpu = capture_.gpus[at->second];
    if (gpu.uuid != row.uuid)
      return report(first, fmt::format("{} has UUID \"{}\" here and \"{}\" above", gpu.name(),
                                       row.uuid.substr(0, kShownCell), gpu.uuid.substr(0, kShownCell)));
    gpu.samples.push_back(row.sample);
  }

  std::optional<Capture> finish() {
    if (capture_.gpus.empty()) {
      report({"", 1}, "there is no sample in the file");
      return std::nullopt;
    }
    std::sort(capture_.gpus.begin(), capture_.gpus.end(), [](const Gpu& a, const Gpu& b) {
      return std::tie(a.host, a.index, a.uuid) < std::tie(b.host, b.index, b.uuid);
    });
    return std::move(capture_);
  }

  const std::string& name_;
  diag::Diagnostics& out_;
  Capture capture_;
  std::map<std::tuple<std::string, int64_t, std::string>, size_t> gpus_;
  std::vector<Column> columns_;
  size_t width_ = 0;
  size_t problems_ = 0;
  uint32_t line_ = 0;
  bool clock_known_ = false;
};

}  // namespace

std::string_view clock_name(Clock clock) {
  switch (clock) {
    case Clock::kLocal:
      return "local wall clock";
    case Clock::kUnix:
      return "Unix time";
    case Clock::kMonotonic:
      return "monotonic clock";
  }
  return "";
}

std::string Gpu::name() const {
  std::string name = index >= 0 ? fmt::format("GPU {}", index) : uuid.substr(0, kShownCell);
  if (!host.empty()) name += fmt::format(" of {}", host.substr(0, kShownCell));
  return name;
}

std::optional<Capture> parse_capture(const std::string& name, std::string_view text, diag::Diagnostics& out) {
  return CaptureReader(name, out).read(text);
}

}  // namespace sweep::telemetry
