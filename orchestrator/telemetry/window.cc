#include "orchestrator/telemetry/window.h"

#include <fmt/format.h>

#include <memory>

#include "orchestrator/diag/rules/power.h"
#include "orchestrator/telemetry/times.h"
#include "orchestrator/yaml/parse.h"
#include "orchestrator/yaml/scalar.h"

namespace sweep::telemetry {

namespace {

namespace rule = diag::rule;
using yaml::Node;

class WindowReader {
 public:
  WindowReader(const yaml::Document& document, diag::Diagnostics& out) : document_(document), out_(out) {}

  std::optional<Window> read() {
    const Node& root = document_.root();
    if (!root.is_map()) {
      report(root.where,
             fmt::format("the file is {}, expected an object with \"start\" and \"end\"", yaml::kind_name(root.kind)));
      return std::nullopt;
    }
    Window window;
    if (const Node* inner = root.find("window"); inner != nullptr && inner->is_map())
      read_measurement(*inner, window);
    else if (root.find("benchmark_start_time_unix") != nullptr)
      read_times(root, {"benchmark_start_time_unix", "benchmark_end_time_unix"}, window);
    else
      read_times(root, {"start", "end"}, window);
    window.expected_gpus = count(root, "expected_gpus", 1);
    window.output_tokens = count(root, "output_tokens", 1);
    if (failed_) return std::nullopt;
    return window;
  }

 private:
  struct Names {
    std::string_view begin, end;
  };

  void report(yaml::Range where, std::string message) {
    failed_ = true;
    out_.add(diag::make_at(rule::power_window, document_.span(where), std::move(message),
                           "write {\"start\": \"2026-11-03T10:00:03.500\", \"end\": ..., \"expected_gpus\": 8, "
                           "\"output_tokens\": 2560}; the counts may be left out"));
  }

  const Node* needed(const Node& map, std::string_view key) {
    const Node* node = map.find(key);
    if (node == nullptr) report(map.where, fmt::format("there is no \"{}\"", key));
    return node;
  }

  std::optional<int64_t> count(const Node& map, std::string_view key, int64_t least) {
    const Node* node = map.find(key);
    if (node == nullptr || node->is_null()) return std::nullopt;
    const auto value = yaml::decode_integer(*node);
    if (value && *value >= least) return *value;
    report(node->where,
           fmt::format("\"{}\" is {}, expected an integer of at least {}", key, yaml::describe(*node), least));
    return std::nullopt;
  }

  std::optional<TimePoint> time(const Node& map, std::string_view key) {
    const Node* node = needed(map, key);
    if (node == nullptr) return std::nullopt;
    if (node->is_scalar() && node->quoted) {
      if (const auto point = parse_date_time(node->text)) return point;
    } else if (node->is_scalar()) {
      if (const auto ns = parse_seconds(node->text)) return TimePoint{Clock::kUnix, *ns};
    }
    report(node->where,
           fmt::format("\"{}\" is {}, expected a time such as \"2026-11-03T10:00:03.500\", or Unix seconds", key,
                       yaml::describe(*node)));
    return std::nullopt;
  }

  std::optional<Span> span(const Node& map, int64_t begin_ns, int64_t end_ns) {
    const Span span{begin_ns, end_ns};
    if (end_ns > begin_ns) return span;
    report(map.where, fmt::format("the window ends {:.3f} s before it begins", -span.seconds()));
    return std::nullopt;
  }

  void read_times(const Node& map, const Names& names, Window& window) {
    const auto begin = time(map, names.begin);
    const auto end = time(map, names.end);
    if (!begin || !end) return;
    if (begin->clock != end->clock)
      return report(map.where, fmt::format("\"{}\" is of the {}, \"{}\" of the {}", names.begin,
                                           clock_name(begin->clock), names.end, clock_name(end->clock)));
    (begin->clock == Clock::kLocal ? window.local : window.unix_time) = span(map, begin->ns, end->ns);
  }

  void read_measurement(const Node& map, Window& window) {
    const auto from = [&](const Names& names) -> std::optional<Span> {
      if (needed(map, names.begin) == nullptr || needed(map, names.end) == nullptr) return std::nullopt;
      const auto begin = count(map, names.begin, 0);
      const auto end = count(map, names.end, 0);
      if (!begin || !end) return std::nullopt;
      return span(map, *begin, *end);
    };
    window.monotonic = from({"start_ns", "end_ns"});
    window.unix_time = from({"start_unix_ns", "end_unix_ns"});
  }

  const yaml::Document& document_;
  diag::Diagnostics& out_;
  bool failed_ = false;
};

}  // namespace

const std::optional<Span>& Window::on(Clock clock) const {
  switch (clock) {
    case Clock::kLocal:
      return local;
    case Clock::kUnix:
      return unix_time;
    case Clock::kMonotonic:
      break;
  }
  return monotonic;
}

std::optional<Window> parse_window(const std::string& name, std::string text, diag::Diagnostics& out) {
  diag::Diagnostics problems;
  const auto document = yaml::parse_json(name, std::move(text), problems);
  out.add_all(problems);
  if (!document || problems.has_errors()) return std::nullopt;
  return WindowReader(*document, out).read();
}

}  // namespace sweep::telemetry
