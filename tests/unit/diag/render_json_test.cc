#include <nlohmann/json.hpp>

#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/load.h"
#include "tests/support/catch.h"

namespace sweep::diag {

TEST_CASE("json: has all fields of the contract, null where there is no place") {
  Diagnostics d;
  Diagnostic item = make_at(rule::file_malformed, {.file = "f", .line = 3, .column = 5}, "m", "h");
  item.path = "a.b";
  item.notes.push_back({.message = "n", .where = SourceSpan{.file = "g", .line = 1}});
  d.add(item);
  d.add(make(rule::load_no_done, "w"));
  const nlohmann::json json = to_json(d);
  CHECK(json["errors"] == 1);
  CHECK(json["warnings"] == 1);
  REQUIRE(json["diagnostics"].size() == 2);
  const auto& first = json["diagnostics"][0];
  CHECK(first["severity"] == "error");
  CHECK(first["rule"] == "file/malformed");
  CHECK(first["message"] == "m");
  CHECK(first["help"] == "h");
  CHECK(first["file"] == "f");
  CHECK(first["line"] == 3);
  CHECK(first["column"] == 5);
  CHECK(first["path"] == "a.b");
  CHECK(first["notes"][0]["file"] == "g");
  CHECK(first["notes"][0]["column"].is_null());
  const auto& second = json["diagnostics"][1];
  CHECK(second["severity"] == "warning");
  for (const char* key : {"file", "line", "column"}) CHECK(second[key].is_null());
}

TEST_CASE("json: bytes that are not UTF-8 do not make it unwritable") {
  Diagnostics d;
  Diagnostic item = make_at(rule::file_malformed, {.file = "f\xff", .line = 1}, "m\xff", "h\xff");
  item.path = "p\xff";
  item.notes.push_back({.message = "n\xff", .where = SourceSpan{.file = "g\xff"}});
  d.add(item);
  const std::string text = to_json(d).dump();
  for (const char* part :
       {"f\xEF\xBF\xBD", "m\xEF\xBF\xBD", "h\xEF\xBF\xBD", "p\xEF\xBF\xBD", "n\xEF\xBF\xBD", "g\xEF\xBF\xBD"})
    CHECK(contains(text, part));
}

TEST_CASE("json: nothing to report is an empty list, not an absent one") {
  CHECK(to_json(Diagnostics()) ==
        nlohmann::json({{"diagnostics", nlohmann::json::array()}, {"errors", 0}, {"warnings", 0}}));
}

}  // namespace sweep::diag
