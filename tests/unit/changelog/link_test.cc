#include "orchestrator/changelog/link.h"

#include "tests/support/catch.h"

using namespace sweep::changelog;

TEST_CASE("link: full links and both placeholders are understood") {
  const auto link = parse_link("https://github.com/SemiAnalysisAI/InferenceX/pull/95");
  REQUIRE(link.has_value());
  CHECK(link->repository == "https://github.com/SemiAnalysisAI/InferenceX");
  CHECK(link->number == "95");
  CHECK_FALSE(link->is_placeholder());
  CHECK(parse_link("XXX")->is_placeholder());
  CHECK(parse_link("XXX")->repository.empty());
  CHECK(parse_link("https://git.example.org:8443/o/n.x/pull/XXX")->is_placeholder());
}

TEST_CASE("link: everything else is refused") {
  for (const char* text :
       {"", "X", "xxx", "https://github.com/o/n/pull/1 ", " https://github.com/o/n/pull/1",
        "http://github.com/o/n/pull/1", "https://github.com/o/n/pull/-1", "https://github.com/o/n/pull/1a",
        "https://github.com/o/n/pull/1/pull/2", "https://github.com//n/pull/1", "https://github.com/o/n/m/pull/1",
        "https://user@github.com/o/n/pull/1", "https://github.com/../n/pull/1", "https://github.com/o/n/pull/",
        "/pull/1"}) {
    INFO(text);
    CHECK_FALSE(parse_link(text).has_value());
  }
}

TEST_CASE("link: a repository is named by owner and name, or by its address") {
  CHECK(parse_repository("o/n") == "https://github.com/o/n");
  CHECK(parse_repository("o/n", "https://git.example.org/") == "https://git.example.org/o/n");
  CHECK(parse_repository("https://git.example.org/o/n") == "https://git.example.org/o/n");
  for (const char* text : {"", "n", "o/", "/n", "o/n/m", "o n/m", "https://github.com/o"})
    CHECK_FALSE(parse_repository(text).has_value());
}
