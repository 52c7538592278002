#include "orchestrator/schema/recipe_variants.h"

#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"

using namespace sweep;

namespace {

struct Expanded {
  std::shared_ptr<yaml::Document> document;
  diag::Diagnostics out;
  std::vector<std::pair<std::string, std::shared_ptr<const yaml::Node>>> variants;

  const yaml::Node& tree(const std::string& selector) const {
    for (const auto& [name, node] : variants)
      if (name == selector) return *node;
    FAIL("no variant " << selector);
    return *variants.front().second;
  }
};

Expanded expand(const std::string& text) {
  Expanded expanded;
  expanded.document = yaml::parse("x.yaml", text, expanded.out);
  REQUIRE(expanded.document);
  expanded.variants = schema::expand_variants(*expanded.document, expanded.out);
  return expanded;
}

}  // namespace

TEST_CASE("recipe variants: a plain file is its own only variant") {
  const Expanded expanded = expand("name: x\n");
  REQUIRE(expanded.variants.size() == 1);
  CHECK(expanded.variants[0].first.empty());
}

TEST_CASE("recipe variants: mappings merge deeply, scalars and lists are replaced, null deletes") {
  const Expanded expanded = expand(
      "base: { name: b, a: { x: 1, y: 2 }, l: [1, 2], gone: 1 }\n"
      "override_o: { name: o, a: { y: 3, z: 4 }, l: [9], gone: null }\n");
  const yaml::Node& tree = expanded.tree("override_o");
  CHECK(tree.find("name")->text == "o");
  CHECK(tree.find("a")->find("x")->text == "1");
  CHECK(tree.find("a")->find("y")->text == "3");
  CHECK(tree.find("a")->find("z")->text == "4");
  CHECK(tree.find("l")->items.size() == 1);
  CHECK(tree.find("gone") == nullptr);
}

TEST_CASE("recipe variants: a zip override gives one variant for each item, short lists repeated") {
  const Expanded expanded =
      expand("base: { name: b, c: 0 }\nzip_override_z: { name: [p, q], c: [7], conc: [[1], [2, 3]], fixed: same }\n");
  CHECK(expanded.out.empty());
  CHECK(expanded.tree("zip_override_z[0]").find("name")->text == "p");
  const yaml::Node& second = expanded.tree("zip_override_z[1]");
  CHECK(second.find("name")->text == "q");
  CHECK(second.find("c")->text == "7");
  CHECK(second.find("conc")->items.size() == 2);
  CHECK(second.find("fixed")->text == "same");
}

TEST_CASE("recipe variants: lists that do not fit give no variant and a diagnostic") {
  for (const char* zip : {"{ a: [1, 2], b: [1, 2, 3] }", "{ a: [] }", "{ a: 1 }"}) {
    const Expanded expanded = expand(std::string("base: { name: b }\nzip_override_z: ") + zip + "\n");
    CHECK(expanded.variants.size() == 1);
    CHECK(expanded.out.error_count() == 1);
  }
}

TEST_CASE("recipe variants: a zip override cannot multiply a file without bound") {
  std::string names = "[a";
  for (int i = 0; i < 1000; ++i) names += ", a";
  const Expanded expanded = expand("base: { name: b }\nzip_override_z: { name: " + names + "] }\n");
  CHECK(expanded.variants.size() == 1);
  CHECK(expanded.out.error_count() == 1);
}

TEST_CASE("recipe variants: other keys beside base are reported") {
  CHECK(expand("base: { name: b }\noverrides: {}\n").out.error_count() == 1);
}

TEST_CASE("recipe variants: a sweep gives every combination, the last parameter fastest, values with their type") {
  const Expanded expanded = expand("name: \"x-{a}-{b}\"\nsize: \"{a}\"\nsweep: { a: [1, 2], b: [p, q] }\n");
  CHECK(expanded.out.empty());
  REQUIRE(expanded.variants.size() == 4);
  CHECK(expanded.tree("sweep[0]").find("name")->text == "x-1-p");
  CHECK(expanded.tree("sweep[1]").find("name")->text == "x-1-q");
  CHECK(expanded.tree("sweep[3]").find("name")->text == "x-2-q");
  CHECK_FALSE(expanded.tree("sweep[2]").find("size")->quoted);
  CHECK(expanded.tree("sweep[2]").find("sweep") == nullptr);
}

TEST_CASE("recipe variants: sweeps of an override are its own variants, and cannot multiply without bound") {
  const Expanded expanded = expand("base: { name: b }\noverride_o: { name: \"{a}\", sweep: { a: [1, 2] } }\n");
  CHECK(expanded.tree("override_o.sweep[1]").find("name")->text == "2");
  std::string values = "[0";
  for (int i = 1; i < 40; ++i) values += ", " + std::to_string(i);
  const Expanded many = expand("name: \"{a}{b}\"\nsweep: { a: " + values + "], b: " + values + "] }\n");
  CHECK(many.variants.empty());
  CHECK(many.out.error_count() == 1);
}
