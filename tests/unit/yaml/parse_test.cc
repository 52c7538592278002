#include "orchestrator/yaml/parse.h"

#include <string>

#include "orchestrator/base/rng.h"
#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/yaml.h"
#include "tests/support/catch.h"

using namespace sweep;
using diag::RuleId;
namespace rule = diag::rule;

namespace {

struct Parsed {
  std::shared_ptr<yaml::Document> document;
  diag::Diagnostics diagnostics;

  bool has(RuleId rule) const {
    for (const diag::Diagnostic& d : diagnostics.items())
      if (d.rule == rule) return true;
    return false;
  }
};

Parsed parse(std::string text, const yaml::Limits& limits = {}) {
  Parsed parsed;
  parsed.document = yaml::parse("x.yaml", std::move(text), parsed.diagnostics, limits);
  return parsed;
}

std::string repeat(const std::string& text, size_t times) {
  std::string result;
  result.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

}  // namespace

TEST_CASE("yaml: keys, scalars, lists and mappings carry their places") {
  const Parsed parsed = parse("a: 1\nlist:\n  - x\n  - { key: 'two words' }\n");
  REQUIRE(parsed.document);
  CHECK(parsed.diagnostics.empty());
  const yaml::Node& root = parsed.document->root();
  REQUIRE(root.entries.size() == 2);
  CHECK(root.entries[0].key == "a");
  CHECK(root.entries[0].value.text == "1");
  const yaml::Entry& key = root.find("list")->items[1].entries[0];
  CHECK(key.value.quoted);
  CHECK(key.value.text == "two words");
  const diag::SourceSpan span = parsed.document->span(key.value.where);
  CHECK(span.line == 4);
  CHECK(span.column == 12);
  CHECK(span.end_column == 23);
}

TEST_CASE("yaml: an empty value is marked at its key, an explicit null at itself") {
  const Parsed parsed = parse("a:\nb: null\n");
  REQUIRE(parsed.document);
  const yaml::Node& root = parsed.document->root();
  CHECK(root.find("a")->is_null());
  CHECK(parsed.document->span(root.find("a")->where).column == 1);
  CHECK(root.find("b")->is_null());
  CHECK(parsed.document->span(root.find("b")->where).column == 4);
}

TEST_CASE("yaml: a duplicate key is reported at the second place and the first value is kept") {
  const Parsed parsed = parse("tp: 8\nother: 1\ntp: 4\n");
  REQUIRE(parsed.document);
  REQUIRE(parsed.diagnostics.items().size() == 1);
  const diag::Diagnostic& d = parsed.diagnostics.items()[0];
  CHECK(d.rule == rule::yaml_duplicate_key);
  CHECK(d.where->line == 3);
  REQUIRE(d.notes.size() == 1);
  CHECK(d.notes[0].where->line == 1);
  CHECK(parsed.document->root().find("tp")->text == "8");
}

TEST_CASE("yaml: duplicate keys inside several mappings are all found in one run") {
  const Parsed parsed = parse("a: { x: 1, x: 2 }\nb:\n  - { y: 1, y: 2, y: 3 }\n");
  CHECK(parsed.diagnostics.error_count() == 3);
}

TEST_CASE("yaml: merge keys put merged keys first and own keys win in place") {
  const Parsed parsed = parse("base: &b { x: 1, y: 2 }\nm: { y: 3, z: 4, <<: *b }\n");
  REQUIRE(parsed.document);
  CHECK(parsed.diagnostics.empty());
  const yaml::Node& m = *parsed.document->root().find("m");
  REQUIRE(m.entries.size() == 3);
  CHECK(m.entries[0].key == "x");
  CHECK(m.entries[0].merged);
  CHECK(m.entries[1].key == "y");
  CHECK(m.entries[1].value.text == "3");
  CHECK_FALSE(m.entries[1].merged);
  CHECK(m.entries[2].key == "z");
}

TEST_CASE("yaml: of a list of merged mappings the earlier one wins") {
  const Parsed parsed = parse("a: &a { x: 1 }\nb: &b { x: 2, y: 2 }\nm: { <<: [*a, *b] }\n");
  REQUIRE(parsed.document);
  CHECK(parsed.document->root().find("m")->find("x")->text == "1");
  CHECK(parsed.document->root().find("m")->find("y")->text == "2");
}

TEST_CASE("yaml: an alias keeps the place of the anchored value") {
  const Parsed parsed = parse("a: &a [1]\nb: *a\n");
  REQUIRE(parsed.document);
  CHECK(parsed.document->span(parsed.document->root().find("b")->items[0].where).line == 1);
}

TEST_CASE("yaml: hostile nesting is refused without exhausting the stack") {
  const std::string opening =
      GENERATE(as<std::string>{}, "[", "{", "{a: ", "- ", "? ", "[{a: ", "- ? ", "a: [", "!!x [");
  const Parsed parsed = parse(repeat(opening, 100'000));
  CHECK(parsed.diagnostics.error_count() >= 1);
  CHECK(parsed.document == nullptr);
}

TEST_CASE("yaml: deep block nesting is refused") {
  std::string text;
  for (size_t i = 0; i < 1500; ++i) text += std::string(i, ' ') + "a:\n";
  CHECK(parse(text).has(rule::yaml_too_deep));
}

TEST_CASE("yaml: a chain of aliases cannot build a tree deeper than the limit") {
  std::string text = "x0: &x0 [1]\n";
  for (int i = 1; i < 500; ++i)
    text += "x" + std::to_string(i) + ": &x" + std::to_string(i) + " [*x" + std::to_string(i - 1) + "]\n";
  const Parsed parsed = parse(text);
  CHECK(parsed.has(rule::yaml_too_deep));
  CHECK(parsed.document == nullptr);
}

TEST_CASE("yaml: an alias inside the value that it names is an error") {
  CHECK(parse("a: &a [*a]\n").diagnostics.error_count() == 1);
}

TEST_CASE("yaml: files with too many bytes or values are refused") {
  CHECK(parse(repeat("- a\n", 300), {.bytes = 1000}).has(rule::yaml_too_large));
  CHECK(parse(repeat("- a\n", 300), {.nodes = 100}).has(rule::yaml_too_large));
  CHECK(parse(repeat("- a\n", 300)).diagnostics.empty());
}

TEST_CASE("yaml: a large flat file is read completely") {
  const Parsed parsed = parse(repeat("- {a: 1, b: text, c: [1, 2]}\n", 20'000));
  REQUIRE(parsed.document);
  CHECK(parsed.document->root().items.size() == 20'000);
}

TEST_CASE("yaml: invalid UTF-8 in all its forms is refused") {
  const std::string bad = GENERATE(as<std::string>{}, "\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                                   "\xF4\x90\x80\x80", "\xFF", "\xC3", "\xE2\x82");
  const Parsed parsed = parse("a: " + bad + "\n");
  CHECK(parsed.has(rule::yaml_not_utf8));
  CHECK(parsed.document == nullptr);
}

TEST_CASE("yaml: a binary file gives few diagnostics") {
  const Parsed parsed = parse(repeat(std::string("\x01\xFF\x00\x1B", 4), 10'000));
  CHECK(parsed.diagnostics.error_count() >= 1);
  CHECK(parsed.diagnostics.error_count() <= 40);
}

TEST_CASE("yaml: UTF-16 is named as such") {
  const Parsed parsed = parse(std::string("\xFF\xFE\x61\x00", 4));
  REQUIRE(parsed.diagnostics.items().size() == 1);
  CHECK(contains(parsed.diagnostics.items()[0].message, "UTF-16"));
}

TEST_CASE("yaml: tabs and carriage returns outside indentation do not hide later problems") {
  const Parsed parsed = parse("a:\t1\r\nb: 1\nb: 2\n");
  CHECK(parsed.has(rule::yaml_tab));
  CHECK(parsed.has(rule::yaml_carriage_return));
  CHECK(parsed.has(rule::yaml_duplicate_key));
}

TEST_CASE("yaml: empty files and comments give an empty tree") {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n"}) {
    const Parsed parsed = parse(text);
    REQUIRE(parsed.document);
    CHECK(parsed.document->root().is_null());
    CHECK(parsed.diagnostics.empty());
  }
}

TEST_CASE("yaml: random mutations of a real file never crash and always end") {
  const std::string seed =
      "entry: &a\n  image: \"x:1\"\n  list: [1, 2, {a: b}]\n  text: |\n    block\n  other: *a\n<<: {x: 'y'}\n? k\n: v\n"
      "--- \n... \n!!str tag: >-\n  folded\n";
  const std::string alphabet = "[]{}:,-?&*!|>'\"%@`# \n\ta1~<=\\";
  base::SplitMix64 rng(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text = seed;
    const uint64_t changes = 1 + rng.below(8);
    for (uint64_t i = 0; i < changes; ++i) {
      const size_t at = rng.below(text.size() + 1);
      const char c = alphabet[rng.below(alphabet.size())];
      switch (rng.below(4)) {
        case 0:
          text.insert(at, 1, c);
          break;
        case 1:
          text.erase(at, rng.below(5));
          break;
        case 2:
          text.insert(at, text.substr(rng.below(text.size() + 1), rng.below(20)));
          break;
        default:
          if (at < text.size()) text[at] = c;
      }
      if (text.empty()) text = "a";
    }
    const Parsed parsed = parse(text);
    for (const diag::Diagnostic& d : parsed.diagnostics.items()) REQUIRE(d.where.has_value());
    CHECK((parsed.document != nullptr || parsed.diagnostics.has_errors()));
  }
}
