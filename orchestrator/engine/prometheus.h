// A page of metrics in Prometheus' text format, read strictly.
// Format: prometheus.io "Exposition formats", text-based; of OpenMetrics also `# EOF`, `# UNIT` and exemplars.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::engine {

struct Label {
  std::string name;
  std::string value;  // without escapes

  friend bool operator==(const Label&, const Label&) = default;
};

// One line with a value.
struct Series {
  std::string name;
  std::vector<Label> labels;  // by name
  double value = 0;           // may be NaN or infinite
  std::optional<int64_t> timestamp_ms;
  uint32_t line = 0;

  // Empty if there is no such label.
  std::string_view label(std::string_view label_name) const;
};

enum class MetricType : uint8_t { kUntyped, kCounter, kGauge, kHistogram, kSummary };

struct MetricsPage {
  std::string file;            // as messages name it
  std::vector<Series> series;  // in the order of the page; no two have the same name and labels

  // As the page declares it, by the name of the samples or (OpenMetrics) by that name without `_total`.
  MetricType type_of(std::string_view name) const;

  struct Declared {
    std::string name;
    MetricType type = MetricType::kUntyped;
  };
  std::vector<Declared> types;  // by name
};

// Larger pages are refused; real ones have some hundred kilobytes.
inline constexpr uint64_t kMostMetricsBytes = uint64_t{8} << 20;

// The first thing that is wrong, with its line: bad names, labels, escapes or values, text that is not UTF-8, a series
// or a type twice, a last line without its end (the page was cut). `file` is for messages.
diag::Result<MetricsPage> parse_metrics(std::string_view text, std::string file);

}  // namespace sweep::engine
