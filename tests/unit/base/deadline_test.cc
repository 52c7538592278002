#include "orchestrator/base/deadline.h"

#include "tests/support/catch.h"

using namespace sweep;
using namespace std::chrono_literals;

TEST_CASE("deadline: it gives what is left, never more than asked for and never nothing") {
  const base::Deadline far(1h);
  CHECK_FALSE(far.passed());
  CHECK(far.at_most(5s) == 5s);
  CHECK(far.at_most(2h) <= 1h);
  CHECK(far.at_most(2h) > 30min);
  CHECK(far.at_most(0ms) == 1ms);
  const base::Deadline over(0ms);
  CHECK(over.passed());
  CHECK(over.at_most(5s) == 1ms);
}
