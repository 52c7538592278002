// The load of a run, from its options.
#include "orchestrator/pipeline/load.h"

#include "tests/support/catch.h"

using namespace sweep;
using namespace std::chrono_literals;

TEST_CASE("load: every limit of a request comes from that of its first token, below whole seconds too") {
  const http::Timeouts usual = pipeline::request_timeouts(10min);
  CHECK(usual.first_byte == 10min);
  CHECK(usual.idle == 2min);
  CHECK(usual.total == 20min);
  const http::Timeouts brief = pipeline::request_timeouts(1500ms);
  CHECK(brief.first_byte == 1500ms);
  CHECK(brief.idle == 300ms);
  CHECK(brief.total == 3s);
}

TEST_CASE("load: a limit so small that a fifth of it is nothing is still a limit") {
  for (const auto first_token : {0ms, 1ms, 4ms}) {
    const http::Timeouts limits = pipeline::request_timeouts(first_token);
    CHECK(limits.first_byte >= 1ms);
    CHECK(limits.idle == 1ms);
    CHECK(limits.total >= 1ms);
  }
}
