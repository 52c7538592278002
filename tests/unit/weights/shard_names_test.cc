#include "orchestrator/weights/shard_names.h"

#include "tests/support/catch.h"

namespace sweep::weights {

TEST_CASE("shard names: number and total are read whatever their widths") {
  const auto number = shard_number("model-00003-of-000163.safetensors", "model");
  REQUIRE(number.has_value());
  CHECK(number->number == 3);
  CHECK(number->of == 163);
  for (const char* name :
       {"model.safetensors", "model-1.safetensors", "model-1-of-.safetensors", "model--of-2.safetensors",
        "model-1-of-2.bin", "models-1-of-2.safetensors", "model-x-of-2.safetensors", "model-1-of-2x.safetensors",
        "model-99999999999999999999-of-2.safetensors", "model-", "model-.safetensors", "model"})
    CHECK(!shard_number(name, "model"));
}

TEST_CASE("shard names: counting from 1 or 0 is in order, gaps and surplus are not") {
  CHECK(numbering_problem({}, 5).empty());
  CHECK(numbering_problem({1, 2, 3}, 3).empty());
  CHECK(numbering_problem({0, 1, 2}, 3).empty());
  CHECK(numbering_problem({0, 1, 2, 3}, 3).empty());
  CHECK(numbering_problem({0}, 1).empty());
  CHECK(numbering_problem({1, 3}, 3) == "number 2 of 3 is not among them");
  CHECK(numbering_problem({2, 3}, 3) == "number 1 of 3 is not among them");
  CHECK(numbering_problem({1, 2}, 3) == "number 3 of 3 is not among them");
  CHECK(numbering_problem({1, 2, 4}, 3) == "there is a number 4 of 3");
  CHECK(numbering_problem({1}, UINT64_MAX) == "number 2 of 18446744073709551615 is not among them");
}

}  // namespace sweep::weights
