#include "orchestrator/base/clock.h"

#include "tests/support/catch.h"

namespace sweep::base {

TEST_CASE("clock: monotonic time does not go back") {
  int64_t last = monotonic_ns();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = monotonic_ns();
    CHECK(now >= last);
    last = now;
  }
}

TEST_CASE("clock: Unix time as UTC text") {
  CHECK(utc_text(0) == "1970-01-01T00:00:00Z");
  CHECK(utc_text(951'782'400'999'999'999) == "2000-02-29T00:00:00Z");
  CHECK(utc_text(4'102'444'799'000'000'000) == "2099-12-31T23:59:59Z");
  CHECK(unix_ns() > 1'700'000'000'000'000'000);
}

}  // namespace sweep::base
