#include "orchestrator/http/secret.h"

#include <string>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/request.h"
#include "tests/support/catch.h"

namespace sweep::http {

TEST_CASE("secret: a key is visible ASCII without what JSON would escape") {
  for (const char* good : {"EMPTY", "sk-0123456789abcdef", "a+b/c=.~_-:"}) CHECK(check_key(good, "it").has_value());
  for (const std::string& bad : std::vector<std::string>{"", "two words", "line\n", "quo\"te", "back\\slash",
                                                         "caf\xC3\xA9", std::string("nu\0l", 4), "tab\t"}) {
    const auto checked = check_key(bad, "the variable KEY");
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().rule == diag::rule::http_bad_key);
    CHECK(contains(checked.error().message, "the variable KEY"));
    if (!bad.empty()) CHECK_FALSE(contains(checked.error().message + checked.error().help, bad));
  }
}

TEST_CASE("secret: every occurrence is replaced, and nothing else") {
  CHECK(without_secret("a sk-1234 b sk-1234", "sk-1234") == "a (secret) b (secret)");
  CHECK(without_secret("nothing here", "sk-1234") == "nothing here");
  CHECK(without_secret("as it is", "") == "as it is");
  CHECK(without_secret("", "sk-1234") == "");
  // A key that its own replacement holds.
  CHECK(without_secret("x secret y", "secret") == "x (secret) y");
}

TEST_CASE("secret: the beginning of a key that an excerpt cut is replaced too") {
  CHECK(without_secret("wrong key sk-12", "sk-1234") == "wrong key (secret)");
  CHECK(without_secret("wrong key sk-12...", "sk-1234") == "wrong key (secret)...");
  CHECK(without_secret("we ask", "sk-1234") == "we ask");  // too short to be more than chance
  CHECK(without_secret("...", "sk-1234") == "...");
}

TEST_CASE("secret: the key goes into one header") {
  CHECK(credentials({}).empty());
  const auto headers = credentials({.bearer_token = "k"});
  REQUIRE(headers.size() == 1);
  CHECK(headers[0].name == "Authorization");
  CHECK(headers[0].value == "Bearer k");
}

}  // namespace sweep::http
