#include "orchestrator/schema/decoder.h"

#include "orchestrator/diag/rules/schema.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"

using namespace sweep;
namespace rule = diag::rule;

namespace {

struct Inner {
  yaml::Range where;
  schema::Located<int64_t> size;
  schema::Located<schema::SpecDecoding> method;
};
struct Outer {
  schema::Located<std::string> name;
  std::vector<Inner> list;
  std::optional<Inner> one;
  std::vector<schema::NamedText> texts;
};

const schema::ObjectShape& outer_shape() {
  static const schema::ObjectShape inner{
      "an inner thing",
      "",
      {schema::field<&Inner::size>("size", schema::integer(1, 10), "how much", schema::Need::kRequired),
       schema::field<&Inner::method>("method", schema::choice_of<schema::SpecDecoding>(), "how")}};
  static const schema::ObjectShape outer{
      "an outer thing",
      "",
      {schema::field<&Outer::name>("name", schema::text(), "what"),
       schema::field<&Outer::list>("list", schema::list(schema::object(inner)), "several"),
       schema::field<&Outer::one>("one", schema::object(inner).or_null(), "one"),
       schema::field<&Outer::texts>("texts", schema::map(schema::any_text()), "named texts")}};
  return outer;
}

struct Result {
  Outer value;
  diag::Diagnostics out;
};

Result decode(const std::string& text) {
  Result result;
  const auto document = yaml::parse("x.yaml", text, result.out);
  REQUIRE(document);
  schema::Decoder decoder(*document, result.out);
  decoder.read_object(document->root(), outer_shape(), &result.value);
  return result;
}

}  // namespace

TEST_CASE("decoder: values go to the members that the table binds") {
  const Result result =
      decode("name: x\nlist: [{ size: 3, method: dspark }]\none: { size: 1 }\ntexts: { A: 'b', C: d }\n");
  CHECK(result.out.empty());
  CHECK(*result.value.name == "x");
  REQUIRE(result.value.list.size() == 1);
  CHECK(*result.value.list[0].size == 3);
  CHECK(*result.value.list[0].method == schema::SpecDecoding::kDspark);
  CHECK(result.value.one->size.present);
  CHECK_FALSE(result.value.one->method.present);
  REQUIRE(result.value.texts.size() == 2);
  CHECK(result.value.texts[1].name == "C");
}

TEST_CASE("decoder: all problems are found in one run, with their paths") {
  const Result result = decode("nme: x\nlist: [{ size: 11 }, 5, { method: x }]\none:\ntexts: { A: 1 }\n");
  std::vector<std::string> paths;
  for (const diag::Diagnostic& d : result.out.items()) paths.push_back(d.path);
  CHECK(paths == std::vector<std::string>{"nme", "list[0].size", "list[1]", "list[2].method", "list[2]", "texts.A"});
}

TEST_CASE("decoder: a misspelt required field is reported once") {
  const Result result = decode("one: { sise: 1 }\n");
  REQUIRE(result.out.items().size() == 1);
  CHECK(result.out.items()[0].rule == rule::schema_unknown_field);
  CHECK(contains(result.out.items()[0].help, "did you mean \"size\"?"));
}

TEST_CASE("decoder: a value that could not be read counts as stated, not as present") {
  const Result result = decode("one: { size: many }\n");
  CHECK(result.value.one->size.stated());
  CHECK_FALSE(result.value.one->size.present);
}

TEST_CASE("decoder: every field of every table has a name and a line of prose") {
  for (const schema::ObjectShape* shape :
       {&schema::single_node_entry_shape(), &schema::multi_node_entry_shape(), &schema::runners_shape(),
        &schema::recipe_shape(), &schema::changelog_entry_shape(), &schema::pin_shape(), &schema::lock_shape(),
        &schema::cluster_shape()}) {
    CHECK(!shape->fields.empty());
    for (const schema::Field& field : shape->fields) {
      INFO(shape->name << "." << field.name);
      CHECK(!field.name.empty());
      CHECK(!field.prose.empty());
      CHECK(shape->find(field.name) == &field);
    }
  }
}
