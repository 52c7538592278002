#include "orchestrator/base/json_fields.h"

#include <nlohmann/json.hpp>

#include "orchestrator/base/hex.h"
#include "tests/support/catch.h"

namespace sweep::base {

TEST_CASE("json fields: what is absent, null or in no object is nothing") {
  const nlohmann::json object = {{"a", 1}, {"b", nullptr}};
  CHECK(*member(object, "a") == 1);
  CHECK(member(object, "b") == nullptr);
  CHECK(member(object, "c") == nullptr);
  CHECK(member(nlohmann::json::array({1}), "a") == nullptr);
  CHECK(member(nlohmann::json(), "a") == nullptr);
}

TEST_CASE("json fields: a count is a whole number up to a limit whose sums cannot overflow") {
  const nlohmann::json object = {{"zero", 0u},   {"most", kMostCounted}, {"more", kMostCounted + 1},
                                 {"minus", -1},  {"part", 1.5},          {"text", "1"},
                                 {"flag", true}, {"none", nullptr}};
  CHECK(count_in(object, "zero") == 0);
  CHECK(count_in(object, "most") == static_cast<int64_t>(kMostCounted));
  for (const char* name : {"more", "minus", "part", "text", "flag", "none", "absent"})
    CHECK(!count_in(object, name).has_value());
}

TEST_CASE("hex: lower-case digits of the asked number") {
  CHECK(is_lower_hex("0123456789abcdef"));
  CHECK(is_lower_hex("0a", 2));
  CHECK(!is_lower_hex("0a", 3));
  CHECK(!is_lower_hex("0A", 2));
  CHECK(!is_lower_hex("0g", 2));
  CHECK(is_lower_hex(""));
}

}  // namespace sweep::base
