// @dwmkerr/mock-llm: a second dialect. It answers with the prompt, has no role event and no usage, and gives the finish
// reason with the last text.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/diag/rules/load.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/loadgen/closed_loop.h"
#include "orchestrator/sample/metrics.h"
#include "tests/conformance/npm_server.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::test;

namespace {

const NpmPackage kMockLlm{
    .name = "@dwmkerr/mock-llm",
    .version = "0.1.29",
    .integrity = "sha512-5jaaRw+grlCaUvG29K7zbI3SKFs41PaNozalqbvPbw9TtMZIrGTPF1lhmOIJW3guY8epbX5hbh1xVaWU+26IxA==",
    .program = "dist/main.js"};

constexpr int64_t kWords = 12;

NpmServer serve_mock(const Installed& mock_llm) {
  return {mock_llm.program,
          {.environment = {{"HOST", "127.0.0.1"}, {"PORT", "{port}"}},
           .files = {{"mock-llm.yaml", "streaming:\n  chunkSize: 5\n  chunkIntervalMs: 3\n"}}}};
}

loadgen::Measurement run_mock(const loadgen::LoadSpec& spec) {
  auto m =
      loadgen::run_closed_loop(spec, [](const sample::Sample&) -> diag::Result<diag::Done> { return diag::Done{}; });
  REQUIRE(m.has_value());
  return std::move(*m);
}

loadgen::LoadSpec mock_spec(const std::string& url, std::vector<std::string> words) {
  return {.job = "job",
          .base_url = url,
          .api = loadgen::Api::kChat,
          .model = "m",
          .isl = kWords,
          .osl = kWords,
          .concurrency = 8,
          .requests = 64,
          .prompt_words = std::move(words),
          .seed = 1,
          .give_up_after = 0};
}

}  // namespace

TEST_CASE("mock-llm: what comes back is each prompt, byte for byte, and without usage it does not count") {
  const Installed mock_llm = install(kMockLlm);
  if (mock_llm.program.empty()) SWEEP_SKIP(mock_llm.why_not);
  const NpmServer server = serve_mock(mock_llm);
  const loadgen::LoadSpec spec =
      mock_spec(server.url(), {"alpha", "b\xC3\xA9ta", "\xE2\x82\xAC", "\xE6\xBC\xA2\xE5\xAD\x97"});
  const loadgen::Measurement m = run_mock(spec);
  REQUIRE(m.samples.size() == 64);
  for (const sample::Sample& s : m.samples) {
    INFO("request " << s.sequence);
    CHECK(s.finish_reason == "stop");
    CHECK(s.output_sha256 == digest::sha256_hex(loadgen::make_words(s.prompt_seed, kWords, spec.prompt_words)));
    CHECK(s.chunks.size() > 2);
    CHECK_FALSE(s.prompt_tokens);
    CHECK_FALSE(s.completion_tokens);
    CHECK(sample::ttft_ms(s).has_value());
    CHECK_FALSE(sample::tpot_ms(s).has_value());  // of how many tokens?
    for (const double gap : sample::inter_chunk_ms(s)) CHECK(gap > 0);
    REQUIRE(s.problems.size() == 1);
    CHECK(s.problems[0].rule == "load/no-usage");
  }
}

TEST_CASE("mock-llm: characters that it splits in the middle break no stream") {
  const Installed mock_llm = install(kMockLlm);
  if (mock_llm.program.empty()) SWEEP_SKIP(mock_llm.why_not);
  const NpmServer server = serve_mock(mock_llm);
  // Two UTF-16 units each, in pieces of five.
  const loadgen::Measurement m =
      run_mock(mock_spec(server.url(), {"\xF0\x9F\x98\x80", "\xF0\x9F\x9A\x80\xF0\x9F\x9A\x80"}));
  REQUIRE(m.samples.size() == 64);
  for (const sample::Sample& s : m.samples) {
    INFO("request " << s.sequence);
    CHECK(s.finish_reason == "stop");
    REQUIRE(s.problems.size() == 1);
    CHECK(s.problems[0].rule == "load/no-usage");
  }
}
