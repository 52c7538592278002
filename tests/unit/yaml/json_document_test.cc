#include <string>

#include "orchestrator/diag/rules/yaml.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"

using namespace sweep;
namespace rule = diag::rule;

namespace {

std::shared_ptr<yaml::Document> parse(std::string text, diag::Diagnostics& out) {
  return yaml::parse_json("x.json", std::move(text), out);
}

}  // namespace

TEST_CASE("json: values carry their places and escapes are decoded") {
  diag::Diagnostics out;
  const auto document = parse("{\n\t\"a\": [1, null, \"x\\u00e9\\n\"],\r\n  \"b\":true}\n", out);
  REQUIRE(document);
  CHECK(out.empty());
  const yaml::Node& list = *document->root().find("a");
  CHECK(list.items[0].text == "1");
  CHECK(list.items[1].is_null());
  CHECK(list.items[2].text == "x\u00e9\n");
  CHECK(list.items[2].quoted);
  CHECK(document->root().find("b")->text == "true");
  CHECK(document->span(list.items[2].where).line == 2);
}

TEST_CASE("json: a syntax error is reported at its line and column") {
  diag::Diagnostics out;
  CHECK(parse("{\n  \"a\": 1,\n  \"b\" 2\n}\n", out) == nullptr);
  REQUIRE(out.items().size() == 1);
  CHECK(out.items()[0].rule == rule::yaml_json_syntax);
  CHECK(out.items()[0].where->line == 3);
}

TEST_CASE("json: what YAML accepts beyond JSON is refused") {
  const std::string text = GENERATE(as<std::string>{}, "{a: 1}", "{'a': 1}", "[1,]", "# x\n{}", "{\"a\": 01}", "",
                                    "&a [1]", "{\"a\": 1} {}");
  diag::Diagnostics out;
  CHECK(parse(text, out) == nullptr);
  CHECK(out.error_count() == 1);
}

TEST_CASE("json: duplicate keys are found") {
  diag::Diagnostics out;
  parse("{\"a\": 1, \"a\": 2}", out);
  REQUIRE(out.items().size() == 1);
  CHECK(out.items()[0].rule == rule::yaml_duplicate_key);
}

TEST_CASE("json: hostile nesting is refused") {
  diag::Diagnostics out;
  CHECK(parse(std::string(100'000, '['), out) == nullptr);
  CHECK(out.error_count() == 1);
}

TEST_CASE("json: text that looks like YAML stays text") {
  diag::Diagnostics out;
  const auto document = parse(R"({"a": "*x", "b": "&y", "c": "- z", "d": "k: v", "e": "#", "f": "%"})", out);
  REQUIRE(document);
  CHECK(out.empty());
  CHECK(document->root().find("d")->text == "k: v");
}
