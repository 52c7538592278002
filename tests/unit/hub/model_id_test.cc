#include "orchestrator/hub/model_id.h"

#include "orchestrator/diag/rules/hub.h"
#include "tests/support/catch.h"

namespace sweep::hub {

namespace {
const std::string kSomeCommit(40, 'a');
}

TEST_CASE("model id: what a hub accepts is accepted") {
  for (const char* model : {"deepseek-ai/DeepSeek-V4.1-Flash", "a/b", "01-ai/Yi_6B.x", "_a/b_"}) {
    CAPTURE(model);
    CHECK(check_model(model).has_value());
  }
  CHECK(check_model("a/" + std::string(96, 'x')).has_value());
}

TEST_CASE("model id: what could mean another address is refused") {
  for (const char* model :
       {"",       "gpt2",  "/",     "a/",     "/b",     "a//b",   "a/b/c",      "../b",       "a/..",
        "a/.b",   "a/b.",  "-a/b",  "a/b-",   "a/b--c", "a/b..c", "a/b.git",    "a/b?x",      "a/b#x",
        "a/b%2F", "a/b c", "a/b\n", "a/b\\c", "a@b/c",  "a:b/c",  "a/\xC3\xA9", "https://h/b"}) {
    CAPTURE(model);
    const auto checked = check_model(model);
    REQUIRE(!checked.has_value());
    CHECK(checked.error().rule == diag::rule::hub_bad_model);
    CHECK(contains(checked.error().help, "ORG/NAME"));
  }
  CHECK(!check_model("a/" + std::string(97, 'x')).has_value());
}

TEST_CASE("model id: the revision is what follows the first @") {
  const ModelRevision both = split_model_revision("a/b@refs/pr/1@x");
  CHECK(both.model == "a/b");
  CHECK(both.revision == "refs/pr/1@x");
  CHECK(split_model_revision("a/b").revision.empty());
}

TEST_CASE("model id: a commit is 40 lower-case hex digits") {
  CHECK(is_commit("0123456789abcdef0123456789abcdef01234567"));
  CHECK(check_commit({"a/b", kSomeCommit}).has_value());
  for (const std::string& revision : {std::string("main"), std::string(39, 'a'), std::string(41, 'a'),
                                      std::string(40, 'g'), std::string(40, 'A'), std::string()}) {
    CAPTURE(revision);
    CHECK(!is_commit(revision));
    const auto checked = check_commit({"a/b", revision});
    REQUIRE(!checked.has_value());
    CHECK(checked.error().rule == diag::rule::hub_not_a_commit);
  }
}

TEST_CASE("model id: the help fits what is wrong with the revision") {
  CHECK(contains(check_commit({"a/b", "main"}).error().help, "--resolve"));
  CHECK(contains(check_commit({"a/b", "abcdef1"}).error().message, "7 of the 40 digits"));
  CHECK(contains(check_commit({"a/b", std::string(40, 'A')}).error().help, "a/b@" + kSomeCommit));
  CHECK(contains(check_commit({"a/b", ""}).error().help, "a/b@main --resolve"));
}

TEST_CASE("model id: branches and tags can be resolved, what cannot be one is refused") {
  for (const char* revision : {"main", "refs/pr/1", "v1.0", "a@b"})
    CHECK(check_resolvable({"a/b", revision}).has_value());
  for (const char* revision : {"", ".", "..", "a b", "a\nb", "\x7f"}) {
    CAPTURE(revision);
    CHECK(!check_resolvable({"a/b", revision}).has_value());
  }
  CHECK(!check_resolvable({"a/b", std::string(300, 'x')}).has_value());
}

}  // namespace sweep::hub
