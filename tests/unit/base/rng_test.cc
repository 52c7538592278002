#include "orchestrator/base/rng.h"

#include "tests/support/catch.h"

namespace sweep::base {

TEST_CASE("rng: is SplitMix64, the same everywhere") {
  SplitMix64 random(1234567);
  CHECK(random.next() == 6457827717110365317u);
  CHECK(random.next() == 3203168211198807973u);
  CHECK(random.next() == 9817491932198370423u);
}

TEST_CASE("rng: bounded and real numbers stay in their ranges and reach their ends") {
  SplitMix64 random(1);
  bool low = false;
  bool high = false;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t value = random.below(3);
    REQUIRE(value < 3);
    low = low || value == 0;
    high = high || value == 2;
    const double real = random.uniform();
    REQUIRE((real >= 0 && real < 1));
  }
  CHECK((low && high));
  CHECK(random.below(1) == 0);
}

}  // namespace sweep::base
