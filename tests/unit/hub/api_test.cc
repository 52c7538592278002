#include "orchestrator/hub/api.h"

#include "tests/support/catch.h"

namespace sweep::hub {

TEST_CASE("api: the next page is the link that says so") {
  CHECK(next_link("<https://h/a?cursor=x%3D>; rel=\"next\"") == "https://h/a?cursor=x%3D");
  CHECK(next_link("<https://h/p>; rel=\"prev\", <https://h/n>; title=\"a, b\"; rel=next") == "https://h/n");
  CHECK(next_link("</rel>;rel=\"next\"") == "/rel");
  for (const char* header : {"", "<https://h/x>", "<https://h/x>; rel=\"xet-auth\"", "<https://h/x; rel=next",
                             "rel=next", "<>; rel=nextone", ">,<", "<a>; x=\"rel=next"}) {
    CAPTURE(header);
    CHECK(!next_link(header).has_value());
  }
}

TEST_CASE("api: an ETag is compared without its quotes") {
  CHECK(bare_etag("\"abc\"") == "abc");
  CHECK(bare_etag("W/\"abc\"") == "abc");
  CHECK(bare_etag("abc") == "abc");
  CHECK(bare_etag("").empty());
  CHECK(bare_etag("\"").size() == 1);
}

}  // namespace sweep::hub
