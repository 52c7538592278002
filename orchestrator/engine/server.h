// A server that is up, seen from outside: is it ready, what does it serve, what do its counters say.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/request.h"

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

// Reads the counters of the engine with this prefix out of a page in Prometheus' text format, summed over labels. Fails
// for a malformed page, and (engine/no-counters) for one without the draft counter. `source` is for messages.
diag::Result<Counters> parse_counters(std::string_view page, std::string_view prefix, const std::string& source);

diag::Result<Counters> read_counters(const std::string& base_url, std::string_view prefix, const std::stop_token& stop,
                                     const http::Access& access = {});

// One GET of /health and /v1/models: absent if the server does not answer well yet, else the ids of the models.
std::optional<std::vector<std::string>> models_if_ready(const std::string& base_url, const std::stop_token& stop);

// The same of a server that someone else runs, with the reason why not. A server without /health is taken by its
// models.
diag::Result<std::vector<std::string>> models_of(const std::string& base_url, const http::Access& access,
                                                 const std::stop_token& stop);

// GET /server_info; null if the server has none.
nlohmann::json server_info(const std::string& base_url, const std::stop_token& stop, const http::Access& access = {});

}  // namespace sweep::engine
