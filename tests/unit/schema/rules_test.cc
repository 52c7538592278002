#include "orchestrator/schema/rules.h"

#include "orchestrator/schema/points.h"

#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"

using namespace sweep;

namespace {

std::vector<std::string> policy_findings(const std::string& settings, const std::string& drafts = "7") {
  diag::Diagnostics out;
  const schema::DocumentPtr document = yaml::parse(
      "x.yaml",
      "e:\n  image: i\n  model: m\n  model-prefix: p\n  precision: fp8\n  framework: sglang\n  runner: h200\n"
      "  multinode: false\n  num-draft-tokens: " +
          drafts + "\n" + settings +
          "  scenarios: { fixed-seq-len: [{ isl: 1, osl: 1, search-space: [{ tp: 1, spec-decoding: dspark, "
          "conc-list: [1] }] }] }\n",
      out);
  REQUIRE(document);
  const auto entries = schema::decode_matrix(document, out);
  REQUIRE(entries.size() == 1);
  schema::check_policy(entries[0], schema::points_of(entries[0]), out);
  out.normalise();
  std::vector<std::string> slugs;
  for (const diag::Diagnostic& d : out.items()) slugs.emplace_back(diag::rule_info(d.rule).slug);
  return slugs;
}

std::string explicit_length(const std::string& length) {
  return "  research-only: true\n  authorization: someone\n  deviations: [d]\n  acceptance: { source: explicit, "
         "length: " +
         length + " }\n";
}

}  // namespace

TEST_CASE("policy: an acceptance length lies between 1 and draft tokens + 1") {
  for (const char* good : {"1", "1.0", "5.7", "8", "8.0"}) {
    INFO(good);
    CHECK(policy_findings(explicit_length(good)).empty());
  }
  for (const char* bad : {"0", "0.99", "8.01", "9", "-1", "100"}) {
    INFO(bad);
    CHECK(policy_findings(explicit_length(bad)) == std::vector<std::string>{"acceptance/out-of-range"});
  }
}

TEST_CASE("policy: with five drafts the ceiling is six") {
  CHECK(policy_findings(explicit_length("6"), "5").empty());
  CHECK(policy_findings(explicit_length("6.1"), "5") == std::vector<std::string>{"acceptance/out-of-range"});
}

TEST_CASE("policy: every part that is missing is named in one run") {
  CHECK(
      policy_findings("  research-only: true\n  acceptance: { source: explicit }\n") ==
      std::vector<std::string>{"research/deviations-missing", "research/not-authorised", "acceptance/length-missing"});
  CHECK(policy_findings("  acceptance: { source: explicit, length: 5.7 }\n") ==
        std::vector<std::string>{"acceptance/explicit-needs-research-only"});
}

TEST_CASE("policy: an explicit setting brought in by a merge key is judged like any other") {
  CHECK(policy_findings("  acceptance: { <<: { source: explicit, length: 9 } }\n") ==
        std::vector<std::string>{"acceptance/explicit-needs-research-only", "acceptance/out-of-range"});
}

TEST_CASE("changelog keys: a star matches anything, everything else is literal") {
  CHECK(schema::key_matches("a*c", "abc"));
  CHECK(schema::key_matches("*", ""));
  CHECK(schema::key_matches("a*b*c", "a-x-b-y-b-c"));
  CHECK(schema::key_matches("abc", "abc"));
  CHECK_FALSE(schema::key_matches("a?c", "abc"));
  CHECK_FALSE(schema::key_matches("ab", "abc"));
  CHECK_FALSE(schema::key_matches("a*d", "abc"));
  CHECK_FALSE(schema::key_matches("", "a"));
}
