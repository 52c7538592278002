#include "orchestrator/engine/readback.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "tests/support/catch.h"
#include "tests/support/http_server.h"

using namespace sweep;
using engine::Reading;

namespace {

engine::ReadBack between(std::string_view framework, const Reading& before, const Reading& after) {
  return engine::counted_between(*engine::find_framework(framework), before, after);
}

std::string vllm_page(int drafts, int accepted) {
  return "vllm:spec_decode_num_drafts_total{engine=\"0\"} " + std::to_string(drafts) +
         "\nvllm:spec_decode_num_drafts_total{engine=\"1\"} 10\n"
         "vllm:spec_decode_num_drafts_created{engine=\"0\"} 1.7e9\n"
         "vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} " +
         std::to_string(accepted) + "\nvllm:prefix_cache_hits_total{engine=\"0\"} 0\n";
}

}  // namespace

TEST_CASE("read-back: counters are summed over engines, and what was before the window is not in it") {
  const auto counted = between("vllm", {.counters = vllm_page(50, 300), .statistics = {}},
                               {.counters = vllm_page(500, 2415), .statistics = {}});
  CHECK(counted.problem.empty());
  CHECK(counted.counted.drafts == 450);
  CHECK(*counted.counted.acceptance_length() == Approx(5.7));
  CHECK(counted.counted.cache_hits == 0);
}

TEST_CASE("read-back: a server that was restarted in the window is a problem, not a figure") {
  const auto counted = between("vllm", {.counters = vllm_page(500, 2415), .statistics = {}},
                               {.counters = vllm_page(450, 2115), .statistics = {}});
  CHECK(contains(counted.problem, "fell from 500 to 450"));
}

TEST_CASE("read-back: pages that are cut, or of no engine, are a problem or nothing") {
  CHECK_FALSE(between("vllm", {.counters = vllm_page(1, 1), .statistics = {}},
                      {.counters = "vllm:spec_decode_num_drafts_total 5", .statistics = {}})
                  .problem.empty());
  CHECK_FALSE(
      between("vllm", {.counters = vllm_page(1, 1), .statistics = {}}, {.counters = "vllm:spec{ 5\n", .statistics = {}})
          .problem.empty());
  const auto nothing = between("vllm", {}, {.counters = vllm_page(1, 1), .statistics = {}});
  CHECK_FALSE(nothing.counted.drafts.has_value());
}

TEST_CASE("read-back: ATOM's document and its page complete one another") {
  const auto stats = [](int four, int five) {
    return nlohmann::json{{"total_draft_tokens", 7 * (four + five)},
                          {"total_accepted_tokens", 4 * four + 5 * five},
                          {"distribution", {{"4", four}, {"5", five}}}}
        .dump();
  };
  const auto counted =
      between("atom", {.counters = "atom:prefix_cache_cached_tokens_total 3\n", .statistics = stats(10, 10)},
              {.counters = "atom:prefix_cache_cached_tokens_total 3\n", .statistics = stats(145, 325)});
  CHECK(counted.problem.empty());
  CHECK(counted.counted.drafts == 450);
  CHECK(*counted.counted.acceptance_length() == Approx(5.7));
  CHECK(counted.counted.accepted_per_position == std::vector<int64_t>{450, 450, 450, 450, 315});
  CHECK(counted.counted.cache_hits == 0);
}

TEST_CASE("read-back: TensorRT-LLM's list is drained by each reading, so that the second one is the window") {
  const auto list = [](int first, int accepted) {
    return nlohmann::json::array(
               {{{"iter", first},
                 {"specDecodingStats",
                  {{"numDraftTokens", 70}, {"numAcceptedTokens", accepted}, {"numRequestsWithDraftTokens", 10}}}}})
        .dump();
  };
  const auto counted =
      between("trtllm", {.counters = {}, .statistics = list(1, 70)}, {.counters = {}, .statistics = list(2, 47)});
  CHECK(*counted.counted.acceptance_length() == Approx(5.7));
  CHECK(contains(
      between("trtllm", {.counters = {}, .statistics = list(2, 70)}, {.counters = {}, .statistics = list(2, 47)})
          .problem,
      "overlap"));
}

TEST_CASE("read-back: SGLang gives steps by its page and a mean since its start by its document") {
  const auto counted =
      between("sglang",
              {.counters = "sglang:spec_verify_calls_total 50\nsglang:generation_tokens_total 100\n",
               .statistics = R"({"internal_states":[{"avg_spec_accept_length":5.1}]})"},
              {.counters = "sglang:spec_verify_calls_total 500\nsglang:generation_tokens_total 2660\n",
               .statistics = R"({"internal_states":[{"avg_spec_accept_length":5.6},{"avg_spec_accept_length":5.8}]})"});
  CHECK(counted.counted.drafts == 450);
  CHECK(counted.counted.generation_tokens == 2560);
  CHECK(*counted.mean_since_start == Approx(5.7));
  CHECK_FALSE(counted.counted.accepted.has_value());
}

TEST_CASE("read-back: what was counted survives its file, and other documents are refused") {
  auto counted = between("vllm", {.counters = vllm_page(50, 300), .statistics = {}},
                         {.counters = vllm_page(500, 2415), .statistics = {}});
  counted.counted.accepted_per_position = {450, 315};
  counted.problem = "p";
  for (const bool through_text : {false, true}) {
    auto json = engine::to_json(counted);
    if (through_text) json = nlohmann::json::parse(json.dump());
    const auto again = engine::read_back_from_json(json).value();
    CHECK(again.counted.drafts == 450);
    CHECK(again.counted.accepted_per_position == counted.counted.accepted_per_position);
    CHECK_FALSE(again.counted.draft_tokens.has_value());
    CHECK(again.problem == "p");
  }
  CHECK_FALSE(engine::read_back_from_json(nlohmann::json::array()).has_value());
  CHECK_FALSE(engine::read_back_from_json({{"accepted_per_position", {"x"}}}).has_value());
}

TEST_CASE("read-back: the log of the window survives its file") {
  auto folder = base::TempDir::create().value();
  const auto file = folder.path() / "engine.log";
  const std::string before = "[2026-09-14 11:00:00] JIT compilation\n";
  const std::string text = before +
                           "[2026-09-14 11:00:01 TP0] Decode batch, #running-req: 1, accept len: 5.70, accept rate: "
                           "0.67, #queue-req: 0\n[2026-09-14 11:00:02] JIT compilation of one\nCUDA error\n";
  REQUIRE(base::write_file_atomic(file, text).has_value());
  const engine::Framework& sglang = *engine::find_framework("sglang");
  const auto log = engine::read_window_log(sglang, file, {.from_byte = before.size(), .to_byte = text.size()});
  CHECK(log.problem.empty());
  const auto again = engine::window_log_from_json(nlohmann::json::parse(engine::to_json(log).dump())).value();
  REQUIRE(again.log.windows.size() == 1);
  CHECK(again.log.windows[0].acceptance_length == Approx(5.7));
  CHECK(again.log.compile_lines.count == 1);
  CHECK(again.log.error_lines.first[0].text == "CUDA error");
  CHECK_FALSE(engine::window_log_from_json({{"windows", "x"}}).has_value());
  CHECK(contains(engine::read_window_log(sglang, folder.path() / "absent", {}).problem, "cannot open"));
}

TEST_CASE("read-back: counts that lack what was received are not complete, and a drained list is read on") {
  const engine::Framework& trtllm = *engine::find_framework("trtllm");
  const auto record = [](int iter) {
    return nlohmann::json{
        {"iter", iter},
        {"specDecodingStats", {{"numDraftTokens", 70}, {"numAcceptedTokens", 47}, {"numRequestsWithDraftTokens", 10}}}};
  };
  std::string answer = nlohmann::json::array({record(3)}).dump();
  const test::HttpServer server([&](const test::HttpRequest&, test::Reply& reply) {
    reply.whole(200, "application/json", std::exchange(answer, "[]"));
  });
  const Reading before{.counters = {}, .statistics = "[]"};
  Reading after{.counters = {}, .statistics = nlohmann::json::array({record(2)}).dump()};
  const engine::ServedTokens served{.requests = 2, .tokens = 110};  // more than one record explains
  CHECK_FALSE(engine::is_complete(trtllm, before, after, served));
  engine::read_again(trtllm, {server.url()}, {}, after);
  CHECK(engine::is_complete(trtllm, before, after, served));
  engine::read_again(trtllm, {server.url()}, {}, after);  // nothing more to take
  CHECK(*engine::counted_between(trtllm, before, after).counted.drafts == 20);
}

TEST_CASE("read-back: generated tokens must be counted up to the last one received") {
  const engine::Framework& sglang = *engine::find_framework("sglang");
  const auto page = [](int tokens) {
    return Reading{.counters = "sglang:generation_tokens_total " + std::to_string(tokens) + "\n", .statistics = {}};
  };
  CHECK_FALSE(engine::is_complete(sglang, page(100), page(355), {.requests = 1, .tokens = 256}));
  CHECK(engine::is_complete(sglang, page(100), page(356), {.requests = 1, .tokens = 256}));
  CHECK(engine::is_complete(sglang, {}, {}, {.requests = 1, .tokens = 256}));
}
