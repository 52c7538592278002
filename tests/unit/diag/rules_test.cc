#include "orchestrator/diag/rules.h"

#include <algorithm>
#include <set>
#include <string>

#include "tests/support/catch.h"

namespace sweep::diag {

TEST_CASE("rules: slugs are unique, of the form family/kebab-case, and found by name") {
  std::set<std::string_view> slugs;
  for (const RuleInfo* rule : rules()) {
    CAPTURE(rule->slug);
    CHECK(slugs.insert(rule->slug).second);
    CHECK(std::count(rule->slug.begin(), rule->slug.end(), '/') == 1);
    CHECK(std::all_of(rule->slug.begin(), rule->slug.end(),
                      [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '/'; }));
    CHECK(find_rule(rule->slug) == rule);
  }
  CHECK(find_rule("no/such-rule") == nullptr);
  CHECK(find_rule("") == nullptr);
}

TEST_CASE("rules: every rule has a summary in the form of a message and an explanation of whole sentences") {
  for (const RuleInfo* rule : rules()) {
    CAPTURE(rule->slug);
    CHECK(!rule->summary.empty());
    CHECK(!rule->summary.ends_with('.'));
    CHECK(rule->summary.find('\n') == std::string_view::npos);
    CHECK(rule->explanation.size() > 40);
    CHECK(rule->explanation.ends_with('.'));
  }
}

}  // namespace sweep::diag
