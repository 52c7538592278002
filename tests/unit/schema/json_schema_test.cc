// The schema for editors against the decoder: both come from the same tables and must judge the same files alike.
#include "orchestrator/schema/json_schema.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "orchestrator/base/file.h"
#include "orchestrator/schema/changelog_file.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/schema/row_schema.h"
#include "orchestrator/schema/rules.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/unit/schema/json_schema_check.h"

using namespace sweep;
using schema::FileKind;
using test::Json;
namespace fs = std::filesystem;

namespace {

constexpr auto& kKinds = schema::ChoiceNames<FileKind>::kNames;

FileKind kind_at(size_t index) {
  return static_cast<FileKind>(index);
}

schema::DocumentPtr parsed(const fs::path& file, diag::Diagnostics& out) {
  auto text = base::read_file(file);
  REQUIRE(text.has_value());
  return file.extension() == ".json" ? yaml::parse_json(file.string(), *std::move(text), out)
                                     : yaml::parse(file.string(), *std::move(text), out);
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& item : fs::recursive_directory_iterator(folder))
    if ((item.path().extension() == ".yaml" || item.path().extension() == ".json") &&
        !item.path().string().ends_with(".schema.json"))
      files.push_back(item.path());
  std::sort(files.begin(), files.end());
  return files;
}

const fs::path kSource = SWEEP_SOURCE_DIR;
const fs::path kGolden = kSource / "tests/golden";

Json value_of(const fs::path& file, const schema::DocumentPtr& document) {
  return file.extension() == ".json" ? Json::parse(document->text()) : test::json_of(document->root());
}

// Everything that reading one file alone reports.
diag::Diagnostics findings(FileKind kind, const schema::DocumentPtr& document) {
  diag::Diagnostics out;
  switch (kind) {
    case FileKind::kMatrix:
      for (const schema::MatrixEntry& entry : schema::decode_matrix(document, out)) {
        const auto points = schema::points_of(entry);
        schema::check_entry(entry, points, out);
        schema::check_policy(entry, points, out);
      }
      break;
    case FileKind::kRunners:
      schema::decode_runners(document, out);
      break;
    case FileKind::kRecipe:
      schema::decode_recipe(document, "r.yaml", out);
      break;
    case FileKind::kAcceptance:
      schema::decode_acceptance(document, out);
      break;
    case FileKind::kChangelog:
      schema::decode_changelog(document, out);
      break;
    case FileKind::kPin: {
      diag::Diagnostics all;
      schema::decode_pin(document, "p.json", all);
      for (const diag::Diagnostic& d : all.items())
        if (!contains(d.message, "in a complete pin")) out.add(d);  // a rule between the pin and each of its files
      break;
    }
    case FileKind::kCluster:
      schema::decode_cluster(document, out);
      break;
    case FileKind::kRow:
      schema::decode_rows(document, out);
      break;
    case FileKind::kResult:
      schema::decode_result(document, out);
      break;
  }
  return out;
}

bool about_fields(const diag::Diagnostics& out) {
  static const std::set<std::string_view> kFields{"schema/unknown-field", "schema/missing-field",
                                                  "schema/wrong-type",    "schema/out-of-range",
                                                  "schema/unknown-value", "schema/malformed-text"};
  return std::any_of(out.items().begin(), out.items().end(),
                     [](const diag::Diagnostic& d) { return kFields.contains(d.rule.info().slug); });
}

// Every object that a shape reaches.
void collect(const schema::Shape& shape, std::vector<const schema::ObjectShape*>& objects,
             std::set<const schema::TextForm*>& forms) {
  if (shape.form != nullptr) forms.insert(shape.form);
  if (shape.item) collect(*shape.item, objects, forms);
  std::vector<const schema::ObjectShape*> below{shape.object};
  for (const schema::ObjectCase& one : shape.cases) below.push_back(one.object);
  for (const schema::ObjectShape* object : below) {
    if (object == nullptr || std::find(objects.begin(), objects.end(), object) != objects.end()) continue;
    objects.push_back(object);
    for (const schema::Field& field : object->fields) collect(field.shape, objects, forms);
  }
}

std::vector<std::string> names_of(const schema::ObjectShape& object) {
  std::vector<std::string> names;
  for (const schema::Field& field : object.fields) names.emplace_back(field.name);
  return names;
}

// What may stand in the place of a value.
const std::vector<Json>& replacements() {
  static const std::vector<Json> kValues{
      nullptr,       true, "text", "", 0, -1, 1, 2, 5000, 2000000000, 1.5, "main", Json::array(), Json::array({"x"}),
      Json::object()};
  return kValues;
}

void visit(Json& value, const std::function<void()>& changed) {
  const auto replaced = [&](Json& place) {
    const Json before = place;
    for (const Json& other : replacements()) {
      place = other;
      changed();
    }
    place = before;
  };
  if (value.is_array())
    for (Json& item : value) {
      replaced(item);
      visit(item, changed);
    }
  if (!value.is_object()) return;
  std::vector<std::string> names;
  for (const auto& [name, item] : value.items()) names.push_back(name);
  for (const std::string& name : names) {
    replaced(value[name]);
    visit(value[name], changed);
    const Json before = value;
    value.erase(name);
    changed();
    value = before;
  }
  value["zzz"] = 1;
  changed();
  value.erase("zzz");
}

}  // namespace

TEST_CASE("json schema: of every kind is sound in itself") {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    INFO(kKinds[i]);
    const Json schema = schema::json_schema(kind_at(i));
    CHECK(test::schema_problems(schema) == std::vector<std::string>());
    CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
    CHECK_FALSE(schema.contains("$id"));
    CHECK(schema::json_schema_text(kind_at(i)) == schema::json_schema_text(kind_at(i)));
  }
}

TEST_CASE("json schema: the check of schemas sees what is wrong with one") {
  CHECK_FALSE(test::schema_problems({{"typ", "object"}}).empty());
  CHECK_FALSE(test::schema_problems({{"$ref", "#/definitions/x"}}).empty());
  CHECK_FALSE(test::schema_problems({{"definitions", {{"x", {{"type", "string"}}}}}}).empty());
  CHECK_FALSE(test::schema_problems({{"type", "integer"}, {"default", "x"}}).empty());
}

TEST_CASE("json schema: every field of the tables is there, with its meaning") {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    INFO(kKinds[i]);
    const Json schema = schema::json_schema(kind_at(i));
    std::vector<const schema::ObjectShape*> objects;
    std::set<const schema::TextForm*> forms;
    collect(schema::file_shape(kind_at(i)).root, objects, forms);
    REQUIRE_FALSE(objects.empty());
    for (const schema::ObjectShape* object : objects) {
      INFO(object->name);
      const auto same = [&](const Json& definition) {
        if (!definition.contains("properties")) return false;
        std::vector<std::string> names;
        for (const auto& [name, property] : definition["properties"].items()) {
          if (property.value("description", "").empty()) return false;
          names.push_back(name);
        }
        return names == names_of(*object);
      };
      CHECK((same(schema) || std::any_of(schema["definitions"].begin(), schema["definitions"].end(), same)));
    }
  }
}

TEST_CASE("json schema: what validate accepts is accepted") {
  std::map<FileKind, Json> schemas;
  for (size_t i = 0; i < kKinds.size(); ++i) schemas[kind_at(i)] = schema::json_schema(kind_at(i));
  std::vector<fs::path> folders{kGolden / "validate/ok", kGolden / "projects/good", kSource / "matrix",
                                kSource / "recipes", kSource / "changelog"};
  if (const fs::path data = test::reference_data(); !data.empty())
    for (const char* below : {"configs", "benchmarks", "golden_al_distribution"})
      folders.push_back(data / "inferencex" / below);
  std::set<FileKind> seen;
  for (const fs::path& folder : folders) {
    for (const fs::path& file : files_below(folder)) {
      diag::Diagnostics out;
      const auto document = parsed(file, out);
      REQUIRE(document != nullptr);
      const auto kind = schema::find_kind(document->root(), file.string());
      if (!kind || file.filename() == "ci-priority.yaml") continue;
      seen.insert(*kind);
      INFO(file.string());
      CHECK(test::violations(schemas[*kind], value_of(file, document)) == std::vector<std::string>());
    }
  }
  CHECK(seen.size() == kKinds.size());
}

TEST_CASE("json schema: a file that breaks a declared rule is refused") {
  std::set<std::string> slugs;
  for (size_t i = 0; i < kKinds.size(); ++i) {
    std::vector<const schema::ObjectShape*> objects;
    std::set<const schema::TextForm*> forms;
    collect(schema::file_shape(kind_at(i)).root, objects, forms);
    for (const schema::ObjectShape* object : objects)
      for (const schema::FieldRule& rule : object->rules) slugs.emplace(rule.rule.info().slug);
  }
  CHECK(slugs.size() >= 8);
  for (const std::string& slug : slugs) {
    std::string name = slug;
    name.replace(name.find('/'), 1, "-");
    fs::path file = kGolden / "validate/err" / (name + ".yaml");
    if (!fs::exists(file)) file.replace_extension(".json");
    INFO(file.string());
    REQUIRE(fs::exists(file));
    diag::Diagnostics out;
    const auto document = parsed(file, out);
    REQUIRE(document != nullptr);
    const auto kind = schema::find_kind(document->root(), file.string());
    REQUIRE(kind.has_value());
    CHECK_FALSE(test::violations(schema::json_schema(*kind), value_of(file, document)).empty());
  }
}

TEST_CASE("json schema: judges every change of a good file as the decoder does") {
  const std::vector<std::pair<FileKind, fs::path>> files{
      {FileKind::kMatrix, kSource / "matrix/embedded.yaml"},
      {FileKind::kMatrix, kGolden / "validate/ok/matrix-kv-offload.yaml"},
      {FileKind::kMatrix, kGolden / "validate/ok/matrix-topology.yaml"},
      {FileKind::kRunners, kGolden / "projects/good/matrix/runners.yaml"},
      {FileKind::kRecipe, kGolden / "projects/good/recipes/tiny.yaml"},
      {FileKind::kRecipe, kGolden / "validate/ok/recipe-zip-lengths.yaml"},
      {FileKind::kAcceptance, kGolden / "projects/good/matrix/acceptance/tiny.yaml"},
      {FileKind::kChangelog, kGolden / "validate/ok/changelog-append-only-evals.yaml"},
      {FileKind::kPin, kGolden / "projects/good/matrix/models/tiny.json"},
      {FileKind::kPin, kGolden / "validate/ok/pin-lock.json"},
      {FileKind::kRow, kGolden / "validate/ok/row.yaml"},
      {FileKind::kResult, kGolden / "validate/ok/result-verdict.json"}};
  size_t accepted = 0;
  size_t refused = 0;
  for (const auto& [kind, file] : files) {
    diag::Diagnostics out;
    const auto document = parsed(file, out);
    REQUIRE(document != nullptr);
    const Json schema = schema::json_schema(kind);
    Json value = value_of(file, document);
    visit(value, [&] {
      const std::string text = value.dump();
      diag::Diagnostics problems;
      const auto changed = yaml::parse_json("x.json", text, problems);
      if (changed == nullptr || problems.has_errors()) return;
      problems = findings(kind, changed);
      const auto violated = test::violations(schema, value);
      const bool contradiction = violated.empty() ? about_fields(problems) : !problems.has_errors();
      ++(violated.empty() ? accepted : refused);
      if (!contradiction) return;
      INFO(file.filename().string());
      INFO(text);
      INFO("validate: " << (problems.empty() ? "nothing" : problems.items().front().message));
      INFO("schema: " << (violated.empty() ? "nothing" : violated.front()));
      CHECK_FALSE(contradiction);
    });
  }
  CHECK(accepted > 100);
  CHECK(refused > 1000);
}

TEST_CASE("json schema: a form's regular expression accepts what its check accepts") {
  std::set<const schema::TextForm*> forms;
  for (size_t i = 0; i < kKinds.size(); ++i) {
    std::vector<const schema::ObjectShape*> objects;
    collect(schema::file_shape(kind_at(i)).root, objects, forms);
  }
  CHECK(forms.size() >= 6);
  const std::string hex40(40, 'a');
  const std::string hex64(64, '0');
  const std::vector<std::string> samples{"",
                                         "a",
                                         "1",
                                         "0",
                                         "01",
                                         "12",
                                         "1234567890",
                                         "-1",
                                         "*",
                                         "a*b",
                                         "image:x",
                                         "ximage:",
                                         "image",
                                         "v1.2\nimage:x",
                                         hex40,
                                         hex40 + "a",
                                         "A" + hex40.substr(1),
                                         hex64,
                                         hex64 + "\n",
                                         "g" + hex64.substr(1),
                                         "/a",
                                         "a/",
                                         "a//b",
                                         ".",
                                         "..",
                                         "...",
                                         "a/..",
                                         "a/../b",
                                         "../a",
                                         ".a",
                                         "a/.b",
                                         "a/b.c",
                                         "a\\b",
                                         "a b/c",
                                         "C:a",
                                         "a:b",
                                         "a/C:b",
                                         "a\tb",
                                         "a\x7f",
                                         "2026-01-31T12:00:00Z",
                                         "2026-01-31T12:00:00",
                                         "2026-01-31 12:00:00Z",
                                         "2026-1-31T12:00:00Z"};
  for (const schema::TextForm* form : forms) {
    INFO(form->name);
    REQUIRE_FALSE(form->pattern.empty());
    const Json schema = {{"pattern", form->pattern}};
    size_t good = 0;
    for (const std::string& sample : samples) {
      INFO(sample);
      CHECK(form->matches(sample) == test::violations(schema, sample).empty());
      good += form->matches(sample) ? 1 : 0;
    }
    CHECK(good > 0);
    CHECK(good < samples.size());
  }
}

TEST_CASE("json schema: entries are told apart by multinode, recipes by base") {
  const Json matrix = schema::json_schema(FileKind::kMatrix);
  const Json& entry = matrix["additionalProperties"];
  CHECK(entry["if"]["properties"]["multinode"]["const"] == true);
  CHECK(entry["then"]["$ref"] == "#/definitions/multi-node-matrix-entry");
  CHECK(entry["else"]["$ref"] == "#/definitions/single-node-matrix-entry");
  const Json recipe = schema::json_schema(FileKind::kRecipe);
  const Json plain = {{"name", "n"},
                      {"model", {{"path", "p"}, {"container", "c"}, {"precision", "fp8"}}},
                      {"resources", {{"gpu_type", "h200"}}}};
  CHECK(test::violations(recipe, plain).empty());
  const Json changed = {{"base", plain},
                        {"override_x", {{"name", "x"}, {"backend", nullptr}}},
                        {"zip_override_y", {{"resources", {{"agg_nodes", {1, 2}}}}}}};
  CHECK(test::violations(recipe, changed).empty());
  CHECK_FALSE(test::violations(recipe, {{"base", plain}, {"overide_x", Json::object()}}).empty());
  CHECK_FALSE(test::violations(recipe, {{"base", plain}, {"override_x", {{"nam", "x"}}}}).empty());
  CHECK_FALSE(test::violations(recipe, {{"base", plain}, {"zip_override_x", {{"name", {1}}}}}).empty());
}
