#include "orchestrator/engine/json_stats.h"

#include "orchestrator/base/file.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
using engine::JsonStats;

namespace {

JsonStats parsed(std::string_view text, std::string_view engine) {
  auto stats = engine::parse_json_stats(text, engine, "stats.json");
  INFO((stats ? std::string() : stats.error().message));
  REQUIRE(stats.has_value());
  return std::move(*stats);
}

std::string refusal(std::string_view text, std::string_view engine) {
  const auto stats = engine::parse_json_stats(text, engine, "stats.json");
  if (stats) return "accepted";
  CHECK(diag::rule_info(stats.error().rule).slug == "engine/malformed-metrics");
  return stats.error().message;
}

std::string mtp(int drafted, int accepted, std::string_view distribution) {
  return "{\"total_draft_tokens\":" + std::to_string(drafted) +
         ",\"total_accepted_tokens\":" + std::to_string(accepted) + ",\"distribution\":{" + std::string(distribution) +
         "}}";
}

std::string iteration(int iter, int drafted, int accepted) {
  return "{\"iter\":" + std::to_string(iter) + ",\"specDecodingStats\":{\"numDraftTokens\":" + std::to_string(drafted) +
         ",\"numAcceptedTokens\":" + std::to_string(accepted) + ",\"numRequestsWithDraftTokens\":1}}";
}

}  // namespace

TEST_CASE("json stats: a distribution of accepted drafts is cumulative, and its difference is the window") {
  const JsonStats before = parsed(mtp(70, 40, "\"4\":10"), "atom");
  const JsonStats after = parsed(mtp(140, 90, "\"4\":10,\"5\":10"), "atom");
  CHECK(after.since_start);
  diag::Diagnostics diagnostics;
  const auto counted = engine::counted_between(before, after, "after", diagnostics).value();
  CHECK(diagnostics.empty());
  CHECK(counted.drafts == 10);
  CHECK(*counted.acceptance_length() == Approx(6.0));
  CHECK(counted.per_position() == std::vector<double>{1, 1, 1, 1, 1});
  const auto reversed = engine::counted_between(after, before, "before", diagnostics);
  CHECK(diagnostics.error_count() == 3);
}

TEST_CASE("json stats: a list that each reading drains is the window by itself") {
  const JsonStats before = parsed("[" + iteration(1, 5, 0) + "]", "trtllm");
  const JsonStats after = parsed("[" + iteration(2, 5, 4) + "," + iteration(3, 5, 3) + ",{\"iter\":4}]", "trtllm");
  diag::Diagnostics diagnostics;
  const auto counted = engine::counted_between(before, after, "after", diagnostics).value();
  CHECK(counted.drafts == 2);
  CHECK(counted.accepted == 7);
  CHECK(after.records.size() == 2);
  CHECK_FALSE(engine::counted_between(after, after, "after", diagnostics).has_value());
  CHECK(parsed("[]", "trtllm").records.empty());
}

TEST_CASE("json stats: documents that are not the engine's are refused") {
  CHECK(contains(refusal("{", "atom"), "not JSON"));
  CHECK(contains(refusal("{}", "atom"), "total_draft_tokens"));
  CHECK(contains(refusal("[]", "atom"), "gives no such document"));
  CHECK(contains(refusal("{}", "vllm"), "gives no such document"));
  CHECK(contains(refusal(mtp(7, 5, "\"4\":1"), "atom"), "adds up to 4"));
  CHECK(contains(refusal(mtp(7, 5, "\"x\":1"), "atom"), "must map"));
  CHECK(contains(refusal(mtp(7, 5, "\"5000000000\":1"), "atom"), "must map"));
  CHECK(contains(refusal(mtp(7, -5, "\"5\":1"), "atom"), "expected"));
  CHECK(contains(refusal("[" + iteration(1, 3, 4) + "]", "trtllm"), "iteration 1"));
  CHECK(contains(refusal("[1]", "trtllm"), "neither"));
  CHECK(
      contains(refusal("{\"internal_states\":[{\"avg_spec_accept_length\":1e9}]}", "sglang"), "no acceptance length"));
  CHECK(contains(refusal("{}", "sglang"), "internal_states"));
  CHECK(contains(refusal(std::string(1 << 20, '['), "trtllm"), "deeper"));
}

TEST_CASE("json stats: logs of JSON lines and lines in brackets are no documents") {
  CHECK(engine::looks_like_json_stats("{\n \"a\": 1\n}\n", "trtllm"));
  CHECK(engine::looks_like_json_stats("{\"a\": 1}\n", "trtllm"));
  CHECK(engine::looks_like_json_stats(" [ {\"iter\": 1}]", "trtllm"));
  CHECK(engine::looks_like_json_stats("[]", "trtllm"));
  CHECK_FALSE(engine::looks_like_json_stats("{\"event\": 1}\n{\"event\": 2}\n", "trtllm"));
  CHECK_FALSE(engine::looks_like_json_stats("[2026-11-03 10:12:05 TP0] Decode batch", "trtllm"));
  CHECK_FALSE(engine::looks_like_json_stats("vllm:x 1\n", "trtllm"));
  CHECK_FALSE(engine::looks_like_json_stats("", "trtllm"));
  CHECK_FALSE(engine::looks_like_json_stats("{\"event\": 1}\n", "embedded"));
}

TEST_CASE("json stats: the samples of engines say what their description says") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const auto read = [&](const char* name) { return base::read_file(data / "engines" / name).value(); };
  const JsonStats atom = parsed(read("atom_mtp_stats.json"), "atom");
  CHECK(atom.counters.drafts == 450);
  CHECK(*atom.counters.acceptance_length() == Approx(5.7));
  CHECK(*atom.counters.draft_token_acceptance() == Approx(0.6714).margin(5e-5));
  const JsonStats iterations = parsed(read("trtllm_iteration_stats.json"), "trtllm");
  CHECK(iterations.records.size() == 3);
  CHECK(iterations.first_iteration == 1200);
  CHECK(iterations.last_iteration == 1202);
  CHECK(*iterations.counters.acceptance_length() == Approx(1 + 11.0 / 3));
  const JsonStats requests = parsed(read("trtllm_perf_metrics.json"), "trtllm");
  CHECK(requests.counters.draft_tokens == 250);
  CHECK(requests.counters.accepted == 205);
  CHECK(*requests.counters.draft_token_acceptance() == Approx(0.82));
  CHECK_FALSE(requests.counters.acceptance_length().has_value());
  CHECK(parsed(read("sglang_server_info.json"), "sglang").mean_lengths == std::vector<double>{5.697});
}

TEST_CASE("json stats: reused blocks are counted since the start, so that a window is a difference") {
  const auto list = [](int first, int reused) {
    return engine::parse_json_stats("[{\"iter\":" + std::to_string(first) + ",\"kvCacheStats\":{\"reusedBlocks\":" +
                                        std::to_string(reused) + ",\"tokensPerBlock\":64}}]",
                                    "trtllm", "metrics")
        .value();
  };
  diag::Diagnostics diagnostics;
  CHECK(engine::counted_between(list(1, 3), list(2, 5), "after", diagnostics)->cache_hits == 128);
  CHECK(engine::counted_between(list(1, 3), list(2, 3), "after", diagnostics)->cache_hits == 0);
}
