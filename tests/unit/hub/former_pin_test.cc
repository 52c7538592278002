#include "orchestrator/hub/former_pin.h"

#include "orchestrator/diag/rules/hub.h"
#include "tests/support/catch.h"

namespace sweep::hub {

namespace {

weights::Pin some_pin() {
  return {.model = "a/b",
          .revision = std::string(40, 'a'),
          .complete = true,
          .files = {{.path = "config.json", .size = 5, .sha256 = std::nullopt, .git_blob = std::string(40, 'b')},
                    {.path = "w", .size = 7, .sha256 = std::string(64, 'c'), .git_blob = std::nullopt}},
          .index = weights::IndexTotals{.total_size = 6, .tensor_count = 1},
          .generator = std::nullopt};
}

size_t differences(const weights::Pin& former) {
  diag::Diagnostics diagnostics;
  compare_with_former(former, some_pin(), diagnostics);
  for (const auto& d : diagnostics.items()) CHECK(d.rule == diag::rule::hub_former_pin);
  CHECK(!diagnostics.has_errors());
  return diagnostics.items().size();
}

}  // namespace

TEST_CASE("former pin: the same, or less, is no difference") {
  CHECK(differences(some_pin()) == 0);
  weights::Pin less = some_pin();
  less.complete = false;
  less.files[0].size.reset();
  less.files[0].git_blob.reset();
  less.files[0].sha256 = std::string(64, 'd');  // the new one knows it by its git blob
  less.files.push_back({.path = "gone", .size = std::nullopt, .sha256 = std::nullopt, .git_blob = std::nullopt});
  less.index.reset();
  CHECK(differences(less) == 0);
}

TEST_CASE("former pin: of another model or commit, it has nothing to say") {
  weights::Pin other = some_pin();
  other.files[0].size = 6;
  other.revision = std::string(40, 'f');
  CHECK(differences(other) == 0);
  other.revision = some_pin().revision;
  other.model = "a/c";
  CHECK(differences(other) == 0);
}

TEST_CASE("former pin: every contradiction is reported") {
  weights::Pin other = some_pin();
  other.files[0].size = 6;
  other.files[0].git_blob = std::string(40, 'e');
  other.files[1].sha256 = std::string(64, 'e');
  other.files.push_back({.path = "gone", .size = 1, .sha256 = std::string(64, 'e'), .git_blob = std::nullopt});
  other.index = weights::IndexTotals{.total_size = 60, .tensor_count = 10};
  CHECK(differences(other) == 6);
}

}  // namespace sweep::hub
