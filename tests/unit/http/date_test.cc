#include "orchestrator/http/date.h"

#include "tests/support/catch.h"

namespace sweep::http {

TEST_CASE("date: the three forms of RFC 9110 mean the same second") {
  for (const char* text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"}) {
    CAPTURE(text);
    CHECK(parse_date(text) == 784111777);
  }
}

TEST_CASE("date: what is no date is none") {
  for (const char* text : {"", "soon", "-5", "Sun, 99 Nov 1994 08:49:37 GMT"}) {
    CAPTURE(text);
    CHECK(!parse_date(text).has_value());
  }
}

}  // namespace sweep::http
