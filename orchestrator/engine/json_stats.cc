#include "orchestrator/engine/json_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/json_fields.h"
#include "orchestrator/base/json_nesting.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/engine/spec_counters.h"

namespace sweep::engine {

namespace {

using base::count_in;
using base::member;
using nlohmann::json;

void add(std::optional<int64_t>& sum, const std::optional<int64_t>& count) {
  if (count) sum = sum.value_or(0) + *count;
}

base::Unexpected<diag::Diagnostic> malformed(const std::string& file, std::string message) {
  return diag::fail(diag::make_at(diag::rule::engine_malformed_metrics, {.file = file, .line = 1}, std::move(message),
                                  "record the document again, whole, as the engine sends it"));
}

// Keys of the distribution are accepted drafts per forward, the target's own token not counted.
diag::Result<JsonStats> mtp_stats(const json& document, const std::string& file) {
  JsonStats stats{.since_start = true};
  SpecCounters& counters = stats.counters;
  counters.draft_tokens = count_in(document, "total_draft_tokens");
  counters.accepted = count_in(document, "total_accepted_tokens");
  const json* distribution = member(document, "distribution");
  if (!counters.draft_tokens || !counters.accepted || distribution == nullptr || !distribution->is_object())
    return malformed(file,
                     "expected \"total_draft_tokens\", \"total_accepted_tokens\" and \"distribution\", as "
                     "/debug/mtp_stats gives them");
  int64_t accepted = 0;
  for (const auto& [key, value] : distribution->items()) {
    size_t drafts = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), drafts);
    const auto steps = count_in(*distribution, key.c_str());
    if (error != std::errc() || end != key.data() + key.size() || drafts >= kMostPositions || !steps)
      return malformed(file, "\"distribution\" must map numbers of accepted drafts to counts");
    add(counters.drafts, *steps);
    accepted += static_cast<int64_t>(drafts) * *steps;
    if (counters.accepted_per_position.size() < drafts) counters.accepted_per_position.resize(drafts);
    for (size_t i = 0; i < drafts; ++i) counters.accepted_per_position[i] += *steps;
  }
  if (accepted != *counters.accepted)
    return malformed(
        file, fmt::format("\"distribution\" adds up to {} accepted drafts, \"total_accepted_tokens\" is {}", accepted,
                          *counters.accepted));
  return stats;
}

// One iteration: the drafts of the requests in it. A record without drafts (a prefill) counts nothing.
diag::Result<SpecCounters> iteration(const json& record, const json& spec, const std::string& file) {
  SpecCounters counters;
  counters.drafts = count_in(spec, "numRequestsWithDraftTokens");
  counters.draft_tokens = count_in(spec, "numDraftTokens");
  counters.accepted = count_in(spec, "numAcceptedTokens");
  if (!counters.drafts || !counters.draft_tokens || !counters.accepted || *counters.accepted > *counters.draft_tokens)
    return malformed(file,
                     fmt::format("\"specDecodingStats\" of iteration {} lacks counts, or accepts more than it drafts",
                                 count_in(record, "iter").value_or(-1)));
  return counters;
}

diag::Result<JsonStats> record_list(const json& document, const std::string& file) {
  JsonStats stats;
  for (const json& record : document) {
    const json* request = member(record, "perf_metrics");
    const auto iter = count_in(record, "iter");
    if (request == nullptr && !iter)
      return malformed(file, "a record has neither \"iter\" (of /metrics) nor \"perf_metrics\" (of /perf_metrics)");
    if (iter) {
      if (!stats.first_iteration) stats.first_iteration = iter;
      stats.last_iteration = iter;
      if (const json* cache = member(record, "kvCacheStats")) {
        const auto blocks = count_in(*cache, "reusedBlocks");
        const auto tokens = count_in(*cache, "tokensPerBlock");
        constexpr int64_t kMostTokensPerBlock = int64_t{1} << 20;
        if (blocks && tokens && *tokens <= kMostTokensPerBlock) stats.reused_tokens = *blocks * *tokens;
      }
    }
    SpecCounters counters;
    if (request != nullptr) {
      if (const json* spec = member(*request, "speculative_decoding")) {
        counters.draft_tokens = count_in(*spec, "total_draft_tokens");
        counters.accepted = count_in(*spec, "total_accepted_draft_tokens");
      }
      counters.requests = 1;
    } else if (const json* spec = member(record, "specDecodingStats")) {
      auto counted = iteration(record, *spec, file);
      if (!counted) return diag::fail(std::move(counted).error());
      counters = std::move(*counted);
    }
    add(stats.counters.drafts, counters.drafts);
    add(stats.counters.draft_tokens, counters.draft_tokens);
    add(stats.counters.accepted, counters.accepted);
    add(stats.counters.requests, counters.requests);
    if (counters.draft_tokens.value_or(0) > 0) stats.records.push_back(std::move(counters));
  }
  return stats;
}

diag::Result<JsonStats> server_info(const json& document, const std::string& file) {
  const json* states = member(document, "internal_states");
  JsonStats stats{.since_start = true};
  if (states == nullptr || !states->is_array())
    return malformed(file, "expected \"internal_states\", as /server_info gives them");
  for (const json& state : *states) {
    const json* length = member(state, "avg_spec_accept_length");
    if (length == nullptr) continue;
    if (!length->is_number() || !(length->get<double>() >= 1 && length->get<double>() <= kLongestAcceptance))
      return malformed(file, "\"avg_spec_accept_length\" is no acceptance length");
    stats.mean_lengths.push_back(length->get<double>());
  }
  return stats;
}

}  // namespace

bool looks_like_json_stats(std::string_view text, std::string_view engine) {
  if (engine != "atom" && engine != "trtllm" && engine != "sglang") return false;
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  if (text[begin] == '{') {
    // A log of JSON lines begins with a brace, too; its first line is whole.
    const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
    return line.find('}') == std::string_view::npos ||
           text.find_first_not_of(" \t\r\n", begin + line.size()) == std::string_view::npos;
  }
  // A log line may begin with "[2026-..." or "[rank0]"; a list of records has an object or its end next.
  if (text[begin] != '[') return false;
  const size_t next = text.find_first_not_of(" \t\r\n", begin + 1);
  return next != std::string_view::npos && (text[next] == '{' || text[next] == ']');
}

diag::Result<JsonStats> parse_json_stats(std::string_view text, std::string_view engine, const std::string& file) {
  if (text.size() > kMostJsonStatsBytes)
    return malformed(file, fmt::format("the document has {} bytes, more than {}", text.size(), kMostJsonStatsBytes));
  if (base::json_nesting(text) > base::kDeepestJson)
    return malformed(file, fmt::format("the document nests deeper than {} levels", base::kDeepestJson));
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return malformed(file, "the document is not JSON, or was cut");
  if (engine == "atom" && document.is_object()) return mtp_stats(document, file);
  if (engine == "trtllm" && document.is_array()) return record_list(document, file);
  if (engine == "sglang" && document.is_object()) return server_info(document, file);
  return malformed(file, fmt::format("\"{}\" gives no such document", engine));
}

diag::Result<SpecCounters> counted_between(const JsonStats& before, const JsonStats& after,
                                           const std::string& after_file, diag::Diagnostics& diagnostics) {
  if (!after.since_start) {
    if (before.last_iteration && after.first_iteration && *after.first_iteration <= *before.last_iteration)
      return malformed(after_file, fmt::format("begins at iteration {}, the reading before ends at {}: they overlap",
                                               *after.first_iteration, *before.last_iteration));
    SpecCounters counters = after.counters;
    if (after.reused_tokens) counters.cache_hits = *after.reused_tokens - before.reused_tokens.value_or(0);
    return counters;
  }
  SpecCounters difference = after.counters;
  const auto subtract = [&](std::optional<int64_t>& from, const std::optional<int64_t>& start, std::string_view what) {
    if (!from || !start) return;
    if (*from < *start)
      diagnostics.add(diag::make_at(diag::rule::engine_counter_reset, {.file = after_file, .line = 1},
                                    fmt::format("{} fell from {} to {}", what, *start, *from),
                                    "read the counters again around a window in which the engine keeps running"));
    *from -= *start;
  };
  subtract(difference.drafts, before.counters.drafts, "the number of forwards");
  subtract(difference.draft_tokens, before.counters.draft_tokens, "\"total_draft_tokens\"");
  subtract(difference.accepted, before.counters.accepted, "\"total_accepted_tokens\"");
  for (size_t i = 0; i < difference.accepted_per_position.size() && i < before.counters.accepted_per_position.size();
       ++i)
    difference.accepted_per_position[i] -= before.counters.accepted_per_position[i];
  return difference;
}

}  // namespace sweep::engine
