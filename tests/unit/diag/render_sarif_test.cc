#include <nlohmann/json.hpp>
#include <set>

#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/load.h"
#include "tests/support/catch.h"

namespace sweep::diag {

namespace {

nlohmann::json log_of(const Diagnostics& diagnostics, const SourceMap& sources = {}) {
  auto log = nlohmann::json::parse(render_sarif(diagnostics, sources), nullptr, false);
  REQUIRE(log.is_object());
  REQUIRE(log["runs"].size() == 1);
  return log;
}

nlohmann::json region_of(const std::string& line, uint32_t column, uint32_t end_column) {
  SourceMap sources;
  sources.add("f", "\n" + line);
  Diagnostics d;
  d.add(make_at(rule::file_malformed, {.file = "f", .line = 2, .column = column, .end_column = end_column}, "m"));
  return log_of(d, sources)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"];
}

}  // namespace

TEST_CASE("sarif: a log has its version, one run, and the rules that were broken") {
  Diagnostics d;
  Diagnostic item =
      make_at(rule::file_malformed, {.file = "a/b.yaml", .line = 3, .column = 5, .end_column = 9}, "bad", "fix it");
  item.path = "entry.x";
  item.notes.push_back({.message = "first here", .where = SourceSpan{.file = "c.yaml", .line = 2}});
  item.notes.push_back({.message = "no place", .where = {}});
  d.add(item);
  d.add(make(rule::load_no_done, "w"));
  d.add(make_at(rule::file_malformed, {.file = "a/b.yaml"}, "again"));
  SourceMap sources;
  sources.add("a/b.yaml", "\n\n    precison: fp8\n");
  const nlohmann::json log = log_of(d, sources);
  CHECK(log["version"] == "2.1.0");
  const nlohmann::json& run = log["runs"][0];
  CHECK(run["columnKind"] == "utf16CodeUnits");
  CHECK_FALSE(run.contains("originalUriBaseIds"));
  const nlohmann::json& driver = run["tool"]["driver"];
  CHECK(driver["name"] == "sweepctl");
  REQUIRE(driver["rules"].size() == 2);
  std::set<std::string> ids;
  for (const nlohmann::json& rule : driver["rules"]) {
    ids.insert(rule["id"]);
    for (const char* key : {"shortDescription", "fullDescription", "help"}) CHECK(rule[key]["text"].is_string());
    CHECK_FALSE(rule.contains("helpUri"));
  }
  CHECK(ids == std::set<std::string>{"file/malformed", "load/no-done"});
  REQUIRE(run["results"].size() == 3);
  for (const nlohmann::json& result : run["results"])
    CHECK(driver["rules"][result["ruleIndex"].get<size_t>()]["id"] == result["ruleId"]);
  const nlohmann::json& first = run["results"][0];
  CHECK(first["level"] == "error");
  CHECK(first["message"]["text"] == "bad\nfix it\nno place");
  const nlohmann::json& location = first["locations"][0];
  CHECK(location["physicalLocation"]["artifactLocation"]["uri"] == "a/b.yaml");
  CHECK(location["physicalLocation"]["region"] ==
        nlohmann::json({{"startLine", 3}, {"startColumn", 5}, {"endColumn", 9}}));
  CHECK(location["logicalLocations"][0]["fullyQualifiedName"] == "entry.x");
  CHECK(first["relatedLocations"][0]["message"]["text"] == "first here");
  CHECK(first["relatedLocations"][0]["physicalLocation"]["region"] == nlohmann::json({{"startLine", 2}}));
  CHECK(run["results"][1]["level"] == "warning");
  CHECK_FALSE(run["results"][1].contains("locations"));
  CHECK_FALSE(run["results"][2]["locations"][0]["physicalLocation"].contains("region"));
}

TEST_CASE("sarif: no diagnostics give a run without results") {
  const nlohmann::json log = log_of({});
  CHECK(log["runs"][0]["results"] == nlohmann::json::array());
  CHECK(log["runs"][0]["tool"]["driver"]["rules"] == nlohmann::json::array());
}

TEST_CASE("sarif: columns count UTF-16 code units") {
  CHECK(region_of("ab: c", 5, 6) == nlohmann::json({{"startLine", 2}, {"startColumn", 5}, {"endColumn", 6}}));
  // Two bytes are one unit, three bytes are one, four bytes are two.
  CHECK(region_of("\xC3\xA9: x", 5, 6)["startColumn"] == 4);
  CHECK(region_of("\xE6\xA8\xA1: x", 6, 7)["startColumn"] == 4);
  CHECK(region_of("\xF0\x9F\x9A\x80: x", 7, 8)["startColumn"] == 5);
  CHECK(region_of("\xF0\x9F\x9A\x80", 1, 5)["endColumn"] == 3);
  CHECK(region_of("\xFF\xFE: x", 5, 6)["startColumn"] == 5);
  // Beyond the line there is nothing to count.
  CHECK(region_of("ab", 1, 400)["endColumn"] == 3);
  CHECK_FALSE(region_of("ab", 400, 401).contains("startColumn"));
}

TEST_CASE("sarif: paths become relative references") {
  const auto uri_of = [](const std::string& file) {
    Diagnostics d;
    d.add(make_at(rule::file_malformed, {.file = file}, "m"));
    return log_of(d)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        .get<std::string>();
  };
  CHECK(uri_of("matrix/a-b_c.1~.yaml") == "matrix/a-b_c.1~.yaml");
  CHECK(uri_of("a b/c%d.yaml") == "a%20b/c%25d.yaml");
  CHECK(uri_of("a:b#c?d") == "a%3Ab%23c%3Fd");
  CHECK(uri_of("\xC3\xA9.yaml") == "%C3%A9.yaml");
  CHECK(uri_of("../x.yaml") == "../x.yaml");
  CHECK(uri_of("/x y.yaml") == "file:///x%20y.yaml");
}

TEST_CASE("sarif: the same diagnostics give the same bytes, whatever bytes they hold") {
  Diagnostics d;
  Diagnostic item = make_at(rule::file_malformed, {.file = "f\xff", .line = 1}, "m\xff", "h\xff");
  item.path = "p\xff";
  item.notes.push_back({.message = "n\xff", .where = SourceSpan{.file = "g\xff"}});
  d.add(item);
  CHECK(render_sarif(d, {}) == render_sarif(d, {}));
  CHECK(contains(render_sarif(d, {}), "m\xEF\xBF\xBD"));
}

}  // namespace sweep::diag
