// Reading fields of a result document that may be of an older version or damaged: absent is a value, never an
// exception.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sweep::report {

// The value at a path like "latency_ms/ttft/mean"; null if any part is absent.
const nlohmann::json& at(const nlohmann::json& document, std::string_view path);

std::string text_at(const nlohmann::json& document, std::string_view path);
std::optional<double> number_at(const nlohmann::json& document, std::string_view path);
bool flag_at(const nlohmann::json& document, std::string_view path);

// "12.3"; "-" without a value.
std::string figure(const std::optional<double>& value, int digits);

// "concurrency 4", or "open loop, 2.5 requests/s (fixed arrivals), at most 3 in flight".
std::string load_text(const nlohmann::json& result);

// Whether requests were sent on a schedule: some were sent later than they were due.
bool was_scheduled(const nlohmann::json& result);

// A row of the latency table: what it is called, where its figures are ("latency_ms/ttft"), digits behind the point.
struct LatencyRow {
  std::string_view label;
  std::string path;
  int digits;
};
std::vector<LatencyRow> latency_rows(const nlohmann::json& result);

// "5269.1 J, 1405.1 W in total, 2.058228 J per output token; power cap", or why there is none.
std::string power_text(const nlohmann::json& result);

// "386.3 us on the device for 4 layers, 7.9 % of it attention"; empty where the engine does not say.
std::string step_text(const nlohmann::json& result);

// What is to be said behind the kernel build: ", not the engine's own", or nothing.
std::string_view kernels_note(const nlohmann::json& result);

// Files, bytes and how they were verified: "8 files, 7893654 bytes, verified", those of the cache included and said.
std::string weights_text(const nlohmann::json& result);

}  // namespace sweep::report
