#include "orchestrator/weights/content_kind.h"

#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"

namespace sweep::weights {

namespace {

// What is said of such a file; empty if nothing.
std::string kind(const std::string& content, std::string_view name = "model.safetensors") {
  const test::TestDir dir;
  const auto found = foreign_content(dir.write("x", content), name);
  if (!found) return {};
  CHECK(!found->help.empty());
  return found->what;
}

}  // namespace

TEST_CASE("content: pages are recognised with their title, in any spelling") {
  CHECK(kind("<!doctype html><html><head><title>504 Gateway Time-out</title>") ==
        "an HTML page (\"504 Gateway Time-out\")");
  CHECK(kind("\xEF\xBB\xBF\n <!DOCTYPE HTML>") == "an HTML page");
  CHECK(kind("<HTML><body>") == "an HTML page");
  CHECK(kind("<html><title>a\x1b[31m\xff</title>") == "an HTML page (\"a [31m \")");
  CHECK(kind("<!doctype html>", "page.html").empty());
}

TEST_CASE("content: pointers and error replies are recognised") {
  CHECK(contains(kind("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"), "git-LFS pointer"));
  CHECK(kind("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>") == "an XML reply (\"AccessDenied\")");
  CHECK(kind(R"({"error":"Access to model x is restricted"})", "config.json") ==
        "a JSON error reply (\"Access to model x is restricted\")");
  CHECK(kind(R"({"error":{"code":5}})") == "a JSON error reply");
  CHECK(kind(R"({"architectures":["Tiny"]})", "config.json").empty());
  CHECK(kind("{" + std::string(60000, '[')).empty());
}

TEST_CASE("content: nothing, and zeros throughout, are recognised") {
  CHECK(kind("") == "nothing");
  CHECK(kind(std::string(1000, '\0')) == "only zero bytes");
  CHECK(contains(kind(std::string(1 << 20, '\0')), "begin, middle and end"));
  std::string late(1 << 20, '\0');
  late.back() = 'x';
  CHECK(kind(late).empty());
  CHECK(kind(test::safetensors("{}", "")).empty());
  CHECK(!foreign_content("/nonexistent", "x"));
  CHECK(!foreign_content("/", "x"));
}

}  // namespace sweep::weights
