// A server that is up, seen from outside: is it ready, what does it serve, what do its counters say.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::engine {

// Cumulative since the server started. Acceptance length between two readings = 1 + accepted / drafts.
struct Counters {
  int64_t drafts = 0;    // verification steps
  int64_t accepted = 0;  // draft tokens that were accepted
  std::vector<int64_t> accepted_per_position;
  int64_t prefix_cache_hits = 0;  // prompt tokens that were not computed
};

Counters operator-(const Counters& after, const Counters& before);

nlohmann::json to_json(const Counters& counters);
diag::Result<Counters> counters_from_json(const nlohmann::json& json);

// Reads the counters with this prefix out of a page in Prometheus' text format, summed over labels. Nothing if the page
// has no draft counter.
std::optional<Counters> parse_counters(std::string_view page, std::string_view prefix);

diag::Result<Counters> read_counters(const std::string& base_url, std::string_view prefix, const std::stop_token& stop);

// One GET of /health and /v1/models: absent if the server does not answer well yet, else the ids of the models.
std::optional<std::vector<std::string>> models_if_ready(const std::string& base_url, const std::stop_token& stop);

// GET /server_info; null if the server has none.
nlohmann::json server_info(const std::string& base_url, const std::stop_token& stop);

// Consecutive verification steps whose acceptance the engine reported together.
struct Window {
  int64_t begin_unix_ns = 0;
  int64_t end_unix_ns = 0;
  int64_t steps = 0;
  int64_t accepted = 0;

  double acceptance_length() const { return 1.0 + static_cast<double>(accepted) / static_cast<double>(steps); }
};

// The embedded engine's decode windows that lie wholly inside [begin, end] of the measurement.
std::vector<Window> read_windows(const std::filesystem::path& log, int64_t begin_unix_ns, int64_t end_unix_ns);

}  // namespace sweep::engine
