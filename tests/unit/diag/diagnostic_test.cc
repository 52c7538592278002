#include "orchestrator/diag/diagnostic.h"

#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/load.h"
#include "tests/support/catch.h"

namespace sweep::diag {

namespace {
Diagnostic at(const std::string& file, uint32_t line, uint32_t column, const std::string& message = "m") {
  return make_at(rule::file_unreadable, {.file = file, .line = line, .column = column}, message);
}
}  // namespace

TEST_CASE("diagnostics: make takes the severity of the rule") {
  CHECK(make(rule::file_unreadable, "m").severity == Severity::kError);
  CHECK(make(rule::load_no_done, "m").severity == Severity::kWarning);
}

TEST_CASE("diagnostics: normalise orders by file, line, column, rule, message and drops exact duplicates only") {
  Diagnostics d;
  d.add(at("b", 1, 1));
  d.add(at("a", 10, 1));
  d.add(at("a", 2, 5));
  d.add(at("a", 2, 1, "z"));
  d.add(at("a", 2, 1, "y"));
  d.add(at("a", 2, 1, "y"));
  d.add(make(rule::file_unreadable, "nowhere"));
  Diagnostic elsewhere = at("a", 2, 1, "y");
  elsewhere.path = "entry.x";
  d.add(elsewhere);
  d.normalise();
  std::string order;
  for (const Diagnostic& item : d.items())
    order += item.where ? item.where->file + std::to_string(item.where->line) + ":" +
                              std::to_string(item.where->column) + item.message + item.path + " "
                        : item.message + " ";
  CHECK(order == "nowhere a2:1y a2:1yentry.x a2:1z a2:5m a10:1m b1:1m ");
}

TEST_CASE("diagnostics: errors and warnings are counted apart") {
  Diagnostics d;
  CHECK(d.empty());
  d.add(make(rule::load_no_done, "w"));
  CHECK(!d.has_errors());
  d.add(make(rule::file_unreadable, "e"));
  Diagnostics all;
  all.add_all(d);
  all.add_all(d);
  CHECK(all.error_count() == 2);
  CHECK(all.warning_count() == 2);
}

TEST_CASE("result: fail carries the diagnostic") {
  const Result<int> failed = fail(rule::file_unreadable, "message", "help");
  REQUIRE(!failed.has_value());
  CHECK(failed.error().message == "message");
  CHECK(failed.error().help == "help");
  const Result<int> fine = 5;
  CHECK(*fine == 5);
}

}  // namespace sweep::diag
