#include "orchestrator/report/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace sweep::report {

const nlohmann::json& at(const nlohmann::json& document, std::string_view path) {
  static const nlohmann::json kNull;
  const nlohmann::json* current = &document;
  while (!path.empty()) {
    const std::string_view key = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), key.size() + 1));
    if (!current->is_object()) return kNull;
    const auto found = current->find(std::string(key));
    if (found == current->end()) return kNull;
    current = &*found;
  }
  return *current;
}

std::string text_at(const nlohmann::json& document, std::string_view path) {
  const nlohmann::json& value = at(document, path);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return {};
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<double> number_at(const nlohmann::json& document, std::string_view path) {
  const nlohmann::json& value = at(document, path);
  if (!value.is_number()) return std::nullopt;
  return value.get<double>();
}

bool flag_at(const nlohmann::json& document, std::string_view path) {
  const nlohmann::json& value = at(document, path);
  return value.is_boolean() && value.get<bool>();
}

std::string figure(const std::optional<double>& value, int digits) {
  if (!value) return "-";
  return fmt::format("{:.{}f}", *value, digits);
}

std::string load_text(const nlohmann::json& result) {
  if (number_at(result, "workload/request_rate"))
    return fmt::format("open loop, {} requests/s ({} arrivals), at most {} in flight",
                       text_at(result, "workload/request_rate"), text_at(result, "workload/arrivals"),
                       text_at(result, "workload/most_in_flight"));
  return fmt::format("concurrency {}", text_at(result, "workload/concurrency"));
}

bool was_scheduled(const nlohmann::json& result) {
  return number_at(result, "workload/request_rate") || number_at(result, "latency_ms/send_delay/max").value_or(0) > 0;
}

std::vector<LatencyRow> latency_rows(const nlohmann::json& result) {
  std::vector<LatencyRow> rows = {{"TTFT", "latency_ms/ttft", 1},
                                  {"TPOT", "latency_ms/tpot", 3},
                                  {"ITL (per token)", "latency_ms/itl", 3},
                                  {"inter-chunk (per step)", "latency_ms/inter_chunk", 3},
                                  {"E2E", "latency_ms/e2el", 1}};
  if (was_scheduled(result)) rows.push_back({"send delay", "latency_ms/send_delay", 3});
  return rows;
}

namespace {

// Of the GPU with the fewest, where they are so few that the energy between them is an estimate.
std::optional<int64_t> few_power_samples(const nlohmann::json& result) {
  constexpr int64_t kEnough = 10;
  std::optional<int64_t> least;
  for (const nlohmann::json& gpu : at(result, "power/gpus"))
    if (gpu.is_object() && gpu.contains("samples") && gpu["samples"].is_number_integer())
      least = std::min(least.value_or(kEnough), gpu["samples"].get<int64_t>());
  return least && *least < kEnough ? least : std::nullopt;
}

}  // namespace

std::string power_text(const nlohmann::json& result) {
  if (!flag_at(result, "power/measured")) return fmt::format("not measured: {}", text_at(result, "power/reason"));
  if (!number_at(result, "power/total_energy_j")) return "measured, and not valid";
  std::string text =
      fmt::format("{} J, {} W in total, {} J per output token", figure(number_at(result, "power/total_energy_j"), 1),
                  figure(number_at(result, "power/avg_total_power_w"), 1),
                  figure(number_at(result, "power/joules_per_output_token"), 6));
  if (const auto few = few_power_samples(result)) text += fmt::format("; from {} samples", *few);
  const nlohmann::json& throttling = at(result, "power/throttling");
  if (throttling.is_string() && !throttling.get<std::string>().empty()) text += "; " + throttling.get<std::string>();
  if (flag_at(result, "power/clock_decays"))
    text += fmt::format("; the SM clock fell steadily by {} %", figure(number_at(result, "power/drop_pct"), 1));
  return text;
}

std::string_view kernels_note(const nlohmann::json& result) {
  const nlohmann::json& used = at(result, "kernels/used_by_engine");
  return used.is_boolean() && !used.get<bool>() ? ", not the engine's own" : "";
}

std::string step_text(const nlohmann::json& result) {
  const auto step = number_at(result, "engine/server_info/steps/verify_step_us");
  if (!step) return {};
  constexpr double kPercent = 100;
  std::string text =
      fmt::format("{} us on the device for {} layers", figure(step, 1), text_at(result, "engine/server_info/layers"));
  if (const auto share = number_at(result, "engine/server_info/steps/attention_share"))
    text += fmt::format(", {:.1f} % of it attention", *share * kPercent);
  return text;
}

std::string weights_text(const nlohmann::json& result) {
  const auto hashed = number_at(result, "weights/bytes");
  const double cached = number_at(result, "weights/bytes_cached").value_or(0);
  const bool verified = flag_at(result, "weights/verified");
  std::string text = fmt::format("{} files, {} bytes, {}", text_at(result, "weights/file_count"),
                                 hashed ? fmt::format("{:.0f}", *hashed + cached) : text_at(result, "weights/bytes"),
                                 verified ? "verified" : "NOT verified");
  if (verified && cached > 0 && hashed == 0.0)
    text += " (unchanged since they were hashed)";
  else if (cached > 0)
    text += fmt::format(" ({:.0f} of them unchanged since they were hashed)", cached);
  return text;
}

}  // namespace sweep::report
