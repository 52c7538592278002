#include "orchestrator/sample/sample.h"

#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/file.h"
#include "tests/support/catch.h"

namespace sweep::sample {

Sample full_sample() {
  return {.job = "0123456789ab",
          .sequence = 3,
          .phase = Phase::kMeasured,
          .prompt_seed = (uint64_t{1} << 53) - 1,
          .scheduled_ns = 10,
          .sent_ns = 11,
          .first_byte_ns = 12,
          .first_token_ns = 13,
          .last_token_ns = 14,
          .end_ns = 15,
          .sent_unix_ns = 1'796'000'000'000'000'000,
          .status = 200,
          .problems = {{"load/short-output", "255 of 256 tokens"}},
          .finish_reason = "stop",
          .prompt_tokens = 8192,
          .completion_tokens = 255,
          .received_tokens = 255,
          .cached_tokens = 0,
          .chunks = {{13, 1}, {14, std::nullopt}},
          .bytes = 4242,
          .output_kind = OutputKind::kTokenIds,
          .output_sha256 = std::string(64, 'a')};
}

TEST_CASE("sample: goes through JSON unchanged") {
  for (const Sample& sample : {full_sample(), Sample{}}) {
    const auto back = sample_from_json(to_json(sample));
    REQUIRE(back.has_value());
    CHECK((*back == sample));
  }
}

TEST_CASE("sample: every missing or mistyped field is refused") {
  const nlohmann::json good = to_json(full_sample());
  for (const auto& [key, value] : good.items()) {
    CAPTURE(key);
    nlohmann::json without = good;
    without.erase(key);
    CHECK(!sample_from_json(without).has_value());
    nlohmann::json mistyped = good;
    mistyped[key] = nlohmann::json{{"an", "object"}};
    const auto result = sample_from_json(mistyped);
    REQUIRE(!result.has_value());
    CHECK(result.error().rule == diag::rule::file_malformed);
    CHECK(contains(result.error().message, key));
  }
}

TEST_CASE("sample: values out of range are refused") {
  const auto with = [](const char* key, nlohmann::json value) {
    nlohmann::json json = to_json(full_sample());
    json[key] = std::move(value);
    return sample_from_json(json).has_value();
  };
  CHECK(!with("phase", "cool-down"));
  CHECK(!with("output_kind", "voice"));
  CHECK(!with("status", int64_t{1} << 40));
  CHECK(!with("end_ns", uint64_t{1} << 63));
  CHECK(!with("chunks", {{1, 2, 3}}));
  CHECK(!with("chunks", {{1.5, 2}}));
  CHECK(!with("problems", {"text"}));
  CHECK(!with("prompt_seed", -1));
  CHECK(with("chunks", {{1, nullptr}}));
  // Differences and sums of what is accepted are numbers too.
  for (const char* time : {"scheduled_ns", "sent_ns", "first_token_ns", "last_token_ns", "end_ns", "sent_unix_ns"}) {
    CHECK(!with(time, -1));
    CHECK(!with(time, INT64_MAX));
    CHECK(with(time, int64_t{1} << 62));
  }
  CHECK(!with("completion_tokens", -1));
  CHECK(!with("completion_tokens", int64_t{1} << 41));
  CHECK(!with("chunks", {{1, -1}}));
  CHECK(!with("chunks", {{-1, 1}}));
  CHECK(!sample_from_json("text").has_value());
}

TEST_CASE("sample: names of enumerations go both ways") {
  for (const Phase phase : {Phase::kWarmUp, Phase::kMeasured}) CHECK(parse_phase(phase_name(phase)) == phase);
  for (const OutputKind kind : {OutputKind::kNone, OutputKind::kTokenIds, OutputKind::kText})
    CHECK(parse_output_kind(output_kind_name(kind)) == kind);
  CHECK(!parse_phase(""));
}

}  // namespace sweep::sample
