#include "orchestrator/base/utf8.h"

#include "tests/support/catch.h"

namespace sweep::base {

TEST_CASE("utf8: characters of one to four bytes, at the ends of their ranges") {
  for (const char* text : {"", "a", "\x7f", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "a\xC3\xA9z"}) {
    CHECK(is_utf8(text));
    CHECK(valid_utf8(text) == text);
  }
}

TEST_CASE("utf8: stray, cut, overlong, surrogate and too large sequences are replaced byte by byte") {
  const std::string r = "\xEF\xBF\xBD";
  CHECK(valid_utf8("a\xffz") == "a" + r + "z");
  CHECK(valid_utf8("\x80") == r);
  CHECK(valid_utf8("\xC3") == r);
  CHECK(valid_utf8("\xE2\x82") == r + r);
  CHECK(valid_utf8("\xC3z") == r + "z");
  CHECK(valid_utf8("\xC0\xAF") == r + r);
  CHECK(valid_utf8("\xE0\x80\xAF") == r + r + r);
  CHECK(valid_utf8("\xED\xA0\x80") == r + r + r);
  CHECK(valid_utf8("\xF4\x90\x80\x80") == r + r + r + r);
  CHECK(valid_utf8("\xF5\x80\x80\x80") == r + r + r + r);
  for (const char* text : {"\xff", "\xC3", "\xE0\x80\xAF", "\xED\xA0\x80"}) CHECK(!is_utf8(text));
}

}  // namespace sweep::base
