#include "kernels/bench/device_report.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/bench/output.h"
#include "kernels/bench/upstream.h"

namespace flashmla::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string number_or_dash(bool known, const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return known ? text : "-";
}

Json clocks_json(const std::optional<Clocks>& clocks) {
  if (!clocks) return nullptr;
  return {{"sm_mhz", clocks->sm_mhz}, {"memory_mhz", clocks->memory_mhz}};
}

Json timing_json(const Timing& timing) {
  if (timing.replays_us.empty()) return nullptr;
  return {{"us", timing.us},
          {"spread", timing.spread},
          {"launches_per_graph", timing.launches},
          {"replays_us", timing.replays_us}};
}

Json ratio(double value, double by) {
  if (by <= 0) return nullptr;
  return value / by;
}

Json upstream_json(const ShapeResult& result, bool same_card) {
  const std::optional<UpstreamTime> upstream = upstream_time(result.shape);
  if (!upstream) return nullptr;
  Json json = {{"heads", upstream->heads}, {"cold_us", upstream->cold_us}, {"warm_us", upstream->warm_us}};
  json["plain_read_us"] = upstream->read_us ? Json(*upstream->read_us) : Json(nullptr);
  json["times_faster"] = same_card ? ratio(upstream->cold_us, result.cold.us) : Json(nullptr);
  json["times_faster_warm"] = same_card ? ratio(upstream->warm_us, result.warm.us) : Json(nullptr);
  return json;
}

Json shape_json(const ShapeResult& result, bool same_card) {
  const DeviceShape& shape = result.shape;
  Json json = {{"name", shape.name()},
               {"section", std::string(1, shape.section)},
               {"cache", info(shape.kind).name},
               {"num_heads", shape.num_heads},
               {"s_q", shape.s_q},
               {"batch", shape.batch},
               {"topk", shape.dense() ? Json(nullptr) : Json(shape.main_topk)},
               {"extra_topk", shape.dense() ? Json(nullptr) : Json(shape.extra_topk)},
               {"seq_len", shape.dense() ? Json(shape.seq_len) : Json(nullptr)}};
  json["error"] = result.ok() ? Json(nullptr) : Json(result.error);
  json["unique_tokens"] = result.unique_tokens;
  json["kv_bytes_unique"] = result.unique_bytes;
  json["kv_bytes_attended"] = result.attended_bytes;
  json["cold_sets"] = result.sets;
  json["cold"] = timing_json(result.cold);
  json["warm"] = timing_json(result.warm);
  json["plain_read"] = timing_json(result.read);
  json["plain_read_grid"] = result.read_grid.empty() ? Json(nullptr) : Json(result.read_grid);
  json["kv_gbps"] = result.cold.us > 0 ? Json(result.kv_gbps()) : Json(nullptr);
  json["times_plain_read"] = ratio(result.cold.us, result.read.us);
  json["us_above_plain_read"] =
      result.cold.us > 0 && result.read.us > 0 ? Json(result.cold.us - result.read.us) : Json(nullptr);
  json["upstream"] = upstream_json(result, same_card);
  json["clocks_before"] = clocks_json(result.clocks_before);
  json["clocks_after"] = clocks_json(result.clocks_after);
  return json;
}

std::optional<double> upstream_us(const TransitionPoint& point) {
  const std::optional<UpstreamTime> upstream = upstream_time(transition_shape(point.query_rows, 8));
  if (!upstream) return std::nullopt;
  return upstream->cold_us;
}

Json transition_json(const TransitionPoint& point, bool same_card) {
  const std::optional<double> upstream = upstream_us(point);
  return {
      {"query_rows", point.query_rows},
      {"batch", point.batch},
      {"s_q", point.s_q},
      {"error", point.error.empty() ? Json(nullptr) : Json(point.error)},
      {"heads_8", timing_json(point.heads_8)},
      {"heads_16", timing_json(point.heads_16)},
      {"heads_64", timing_json(point.heads_64)},
      {"padded64_heads_8", timing_json(point.padded_8)},
      {"padded64_heads_16", timing_json(point.padded_16)},
      {"gain_8", ratio(point.heads_64.us, point.heads_8.us)},
      {"gain_16", ratio(point.heads_64.us, point.heads_16.us)},
      {"gain_8_over_padded64", point.padded_8.us > 0 ? ratio(point.padded_8.us, point.heads_8.us) : Json(nullptr)},
      {"gain_16_over_padded64", point.padded_16.us > 0 ? ratio(point.padded_16.us, point.heads_16.us) : Json(nullptr)},
      {"upstream_us", upstream ? Json(*upstream) : Json(nullptr)},
      {"gain_8_over_upstream", upstream && same_card ? ratio(*upstream, point.heads_8.us) : Json(nullptr)},
      {"gain_16_over_upstream", upstream && same_card ? ratio(*upstream, point.heads_16.us) : Json(nullptr)}};
}

std::string clocks_text(const std::optional<Clocks>& clocks) {
  return clocks ? format("%d/%d MHz", clocks->sm_mhz, clocks->memory_mhz) : "clocks unknown";
}

// A figure of many shapes, with the shapes at its ends.
class Range {
 public:
  void add(double value, const DeviceShape& shape) { values_.emplace_back(value, shape.name()); }
  // "  what: lowest 1.2 (shape), median 2.0, highest 3.1 (shape)"
  std::string text(const char* what) {
    if (values_.empty()) return {};
    std::sort(values_.begin(), values_.end());
    const auto& [low, lowest] = values_.front();
    const auto& [high, highest] = values_.back();
    return format("  %s: lowest %.2f (%s), median %.2f, highest %.2f (%s)\n", what, low, lowest.c_str(),
                  values_[values_.size() / 2].first, high, highest.c_str());
  }

 private:
  std::vector<std::pair<double, std::string>> values_;
};

std::string section_summary(const DeviceReport& report, char section) {
  Range faster, over_read, above_read;
  int64_t measured = 0, failed = 0;
  for (const ShapeResult& result : report.shapes) {
    if (result.shape.section != section) continue;
    ++(result.ok() ? measured : failed);
    if (!result.ok()) continue;
    const std::optional<UpstreamTime> upstream = upstream_time(result.shape);
    if (upstream && is_upstream_card(report.device.name)) {
      faster.add(upstream->cold_us / result.cold.us, result.shape);
    }
    if (result.shape.rows() >= 64) over_read.add(result.cold.us / result.read.us, result.shape);
    if (result.shape.rows() <= 8) above_read.add(result.cold.us - result.read.us, result.shape);
  }
  if (measured + failed == 0) return {};
  return format("%c: %lld shapes measured, %lld not\n", section, static_cast<long long>(measured),
                static_cast<long long>(failed)) +
         faster.text("times faster than upstream") + over_read.text("times the plain read, 64 query rows and more") +
         above_read.text("us above the plain read, up to 8 query rows");
}

}  // namespace

bool DeviceReport::complete() const {
  return std::all_of(shapes.begin(), shapes.end(), [](const ShapeResult& result) { return result.ok(); }) &&
         std::all_of(transition.begin(), transition.end(),
                     [](const TransitionPoint& point) { return point.error.empty(); });
}

std::string heading(const DeviceReport& report) {
  const Ceilings& ceilings = report.ceilings;
  std::string text =
      format("%s, %d SMs, driver %s, SM/memory %s; library %s %s\n", report.device.name.c_str(),
             report.device.multiprocessors, report.driver_version.empty() ? "unknown" : report.driver_version.c_str(),
             clocks_text(report.clocks_before).c_str(), report.arch.c_str(), report.variant.c_str());
  text += format("linear read %.0f GB/s (%s); empty kernel in a graph %.2f us, on every SM %.2f us\n",
                 ceilings.linear_gbps, ceilings.linear_grid.c_str(), ceilings.empty_us, ceilings.empty_full_us);
  return text;
}

std::string shape_heading() {
  return format("%-30s %9s %6s %9s %7s %9s %6s %7s %9s %6s\n", "shape", "cold us", "spread", "warm us", "GB/s",
                "read us", "x read", "+ us", "upstream", "faster");
}

std::string table_row(const ShapeResult& result, bool same_card) {
  const std::string name = result.shape.name();
  if (!result.ok()) return format("%-30s ", name.c_str()) + "not measured: " + result.error + "\n";
  const std::optional<UpstreamTime> upstream = upstream_time(result.shape);
  const bool read = result.read.us > 0;
  return format(
      "%-30s %9.2f %5.1f%% %9.2f %7.0f %9.2f %6s %7s %9s %6s\n", name.c_str(), result.cold.us, 100 * result.cold.spread,
      result.warm.us, result.kv_gbps(), result.read.us,
      number_or_dash(read, "%.2f", result.cold.us / result.read.us).c_str(),
      number_or_dash(read, "%.2f", result.cold.us - result.read.us).c_str(),
      number_or_dash(upstream.has_value(), "%.2f", upstream ? upstream->cold_us : 0).c_str(),
      number_or_dash(upstream && same_card, "%.2f", upstream ? upstream->cold_us / result.cold.us : 0).c_str());
}

std::string transition_heading(bool with_baseline) {
  std::string text = format("%10s %6s %4s %9s %9s %9s %8s %8s", "query rows", "batch", "s_q", "8 heads", "16 heads",
                            "64 heads", "gain 8", "gain 16");
  if (with_baseline) text += format(" %9s %9s %8s %8s", "padded 8", "padded 16", "gain 8", "gain 16");
  return text + format(" %9s %8s %8s\n", "upstream", "gain 8", "gain 16");
}

std::string table_row(const TransitionPoint& point, bool with_baseline, bool same_card) {
  std::string text = format("%10d %6d %4d", point.query_rows, point.batch, point.s_q);
  if (!point.error.empty()) return text + " not measured: " + point.error + "\n";
  text += format(" %9.2f %9.2f %9.2f %8.2f %8.2f", point.heads_8.us, point.heads_16.us, point.heads_64.us,
                 point.heads_64.us / point.heads_8.us, point.heads_64.us / point.heads_16.us);
  if (with_baseline) {
    text += format(" %9.2f %9.2f %8.2f %8.2f", point.padded_8.us, point.padded_16.us,
                   point.padded_8.us / point.heads_8.us, point.padded_16.us / point.heads_16.us);
  }
  const std::optional<double> upstream = upstream_us(point);
  const bool compared = upstream.has_value() && same_card;
  return text + format(" %9s %8s %8s\n", number_or_dash(upstream.has_value(), "%.2f", upstream.value_or(0)).c_str(),
                       number_or_dash(compared, "%.2f", upstream.value_or(0) / point.heads_8.us).c_str(),
                       number_or_dash(compared, "%.2f", upstream.value_or(0) / point.heads_16.us).c_str());
}

std::string summary(const DeviceReport& report) {
  std::string text;
  for (const char section : {'A', 'B', 'F', 'C', 'N'}) text += section_summary(report, section);
  int lowest = std::numeric_limits<int>::max(), highest = 0;
  for (const ShapeResult& result : report.shapes) {
    if (!result.clocks_after) continue;
    lowest = std::min(lowest, result.clocks_after->sm_mhz);
    highest = std::max(highest, result.clocks_after->sm_mhz);
  }
  if (highest > 0) text += format("SM clock behind the shapes: %d to %d MHz\n", lowest, highest);
  return text;
}

std::string to_json(const DeviceReport& report) {
  const bool same_card = is_upstream_card(report.device.name);
  Json shapes = Json::array();
  for (const ShapeResult& result : report.shapes) shapes.push_back(shape_json(result, same_card));
  Json transition = Json::array();
  for (const TransitionPoint& point : report.transition) transition.push_back(transition_json(point, same_card));
  const Json json = {
      {"schema_version", kDeviceReportSchemaVersion},
      {"mode", "device"},
      {"library",
       {{"path", report.library}, {"arch", report.arch}, {"variant", report.variant}, {"compiler", report.compiler}}},
      {"baseline", report.baseline.empty() ? Json(nullptr) : Json(report.baseline)},
      {"device",
       {{"name", report.device.name},
        {"compute_capability", report.device.capability()},
        {"multiprocessors", report.device.multiprocessors},
        {"l2_bytes", report.device.l2_bytes},
        {"memory_bytes", report.device.memory_bytes},
        {"driver_version", report.driver_version.empty() ? Json(nullptr) : Json(report.driver_version)},
        {"driver_cuda_version", report.device.driver_cuda_version()}}},
      {"clocks_before", clocks_json(report.clocks_before)},
      {"clocks_after", clocks_json(report.clocks_after)},
      {"protocol",
       {{"time",
         "graph replay between events, per launch, median of the replays; spread (longest - shortest) / median"},
        {"replays", report.replays},
        {"cold", "disjoint pools in turn, indices, queries and outputs where they are"},
        {"cold_bytes", kColdBytes},
        {"most_cold_sets", kMaxColdSets},
        {"page_size", kPageSize}}},
      {"ceilings",
       {{"linear_read_gbps", report.ceilings.linear_gbps},
        {"linear_read_grid", report.ceilings.linear_grid},
        {"empty_kernel_us", report.ceilings.empty_us},
        {"empty_kernel_every_sm_us", report.ceilings.empty_full_us}}},
      {"upstream",
       {{"repository", "deepseek-ai/FlashMLA"},
        {"commit", kUpstreamCommit},
        {"card", kUpstreamCard},
        {"same_card", same_card}}},
      {"shapes", std::move(shapes)},
      {"transition", std::move(transition)},
      {"complete", report.complete()}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace flashmla::bench
