#include "orchestrator/base/json_nesting.h"

#include <string>

#include "tests/support/catch.h"

using sweep::base::json_nesting;

TEST_CASE("json_nesting: counts open objects and lists, brackets in strings left out") {
  CHECK(json_nesting("") == 0);
  CHECK(json_nesting("12") == 0);
  CHECK(json_nesting("{}") == 1);
  CHECK(json_nesting(R"({"a":[1,[2]],"b":{}})") == 3);
  CHECK(json_nesting(R"(["[[[[", "\"[[", "\\"])") == 1);
  CHECK(json_nesting(R"(["\)") == 1);
  CHECK(json_nesting("]]][") == 1);
  CHECK(json_nesting(std::string(1 << 20, '[')) == 1 << 20);
}
