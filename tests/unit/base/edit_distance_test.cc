#include "orchestrator/base/edit_distance.h"

#include <array>
#include <string>

#include "tests/support/catch.h"

namespace sweep::base {

TEST_CASE("edit distance: insertions, deletions, substitutions and swaps cost one each") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "abc") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("concurency", "concurrency") == 1);
  CHECK(edit_distance("teh", "the") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("ca", "abc") == 3);
}

TEST_CASE("nearest: close words are offered, far ones are not, ties go to the earlier") {
  constexpr std::array<std::string_view, 4> kFields{"concurrency", "isl", "osl", "model"};
  CHECK(nearest("concurency", kFields) == "concurrency");
  CHECK(nearest("modle", kFields) == "model");
  CHECK(nearest("xsl", kFields) == "isl");
  CHECK(!nearest("entirely-different", kFields));
  CHECK(!nearest("", kFields));
  CHECK(!nearest("x", std::span<const std::string_view>()));
  CHECK(!nearest(std::string(100'000, 'a'), kFields));
}

}  // namespace sweep::base
