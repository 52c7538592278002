#include "orchestrator/changelog/append.h"
#include "orchestrator/diag/rules/changelog.h"
#include "tests/support/catch.h"
#include "tests/unit/changelog/entries.h"

using namespace sweep;
using test::entry;
using test::pull;

namespace {

const std::string kBase = "# c\n" + entry("a", pull(1));

std::optional<changelog::Resolution> resolve(const std::optional<std::string>& base, const std::string& main,
                                             const std::string& branch, diag::Diagnostics& out) {
  changelog::Conflict conflict{std::nullopt, {"main", main}, {"branch", branch}};
  if (base) conflict.base = changelog::Revision{"base", *base};
  return changelog::resolve_conflict(conflict, {"7", {}}, out);
}

}  // namespace

TEST_CASE("resolve: main stays byte for byte, the branch's entries follow it") {
  diag::Diagnostics out;
  const std::string main = kBase + "\n" + entry("m", pull(2)) + "# by main\n";
  const std::string branch = kBase + "\n" + entry("b", "XXX") + "  # by branch\n\n" + entry("c", pull(7));
  const auto result = resolve(kBase, main, branch, out);
  REQUIRE(result.has_value());
  CHECK(result->text == main + "\n" + entry("b", "XXX") + "  # by branch\n\n" + entry("c", pull(7)));
  CHECK(result->appended == 2);
}

TEST_CASE("resolve: an entry that main has already, under whatever link, is not repeated") {
  diag::Diagnostics out;
  const std::string main = kBase + "\n" + entry("b", pull(6));
  const auto result = resolve(kBase, main, kBase + "\n" + entry("b", "XXX") + "\n" + entry("c", "XXX"), out);
  REQUIRE(result.has_value());
  CHECK(result->text == main + "\n" + entry("c", "XXX"));
  CHECK(result->dropped == 1);
}

TEST_CASE("resolve: a corrected link is corrected again unless main did so itself") {
  diag::Diagnostics out;
  const std::string base = kBase + "\n" + entry("o", "XXX");
  const std::string branch = kBase + "\n" + entry("o", pull(3));
  const auto applied = resolve(base, base + "\n" + entry("m", pull(2)), branch, out);
  REQUIRE(applied.has_value());
  CHECK(applied->text == branch + "\n" + entry("m", pull(2)));
  CHECK(applied->corrected == 1);
  const std::string corrected = kBase + "\n" + entry("o", pull(4));
  const auto kept = resolve(base, corrected, branch, out);
  REQUIRE(kept.has_value());
  CHECK(kept->text == corrected);
}

TEST_CASE("resolve: both sides may have made the file") {
  diag::Diagnostics out;
  const auto result = resolve(std::nullopt, entry("m", pull(2)), entry("b", pull(7)), out);
  REQUIRE(result.has_value());
  CHECK(result->text == entry("m", pull(2)) + "\n" + entry("b", pull(7)));
}

TEST_CASE("resolve: a side that changed history is refused") {
  for (const bool on_main : {true, false}) {
    diag::Diagnostics out;
    const std::string changed = "# c\n" + entry("z", pull(1));
    CHECK_FALSE(resolve(kBase, on_main ? changed : kBase, on_main ? kBase : changed, out).has_value());
    CHECK(out.has_errors());
    CHECK(out.items().back().rule == diag::rule::changelog_no_conflict);
    CHECK(out.items().back().where->file == (on_main ? "main" : "branch"));
  }
}

TEST_CASE("resolve: what comes out is judged by the same rules") {
  diag::Diagnostics out;
  CHECK_FALSE(resolve(kBase, kBase, kBase + "\n" + entry("b", pull(8)), out).has_value());
  REQUIRE(out.items().size() == 1);
  CHECK(out.items()[0].rule == diag::rule::changelog_link_number);
}

TEST_CASE("canonicalize: placeholders of new entries become the link, those of history stay") {
  const std::string base = kBase + "\n" + entry("o", "XXX");
  const std::string head = base + "\n" + entry("b", "\"XXX\"  # soon") + "\n" +
                           entry("c", "https://github.com/o/n/pull/XXX") + "\n" + entry("d", pull(7));
  diag::Diagnostics out;
  const auto result = changelog::canonicalize(changelog::Revision{"base", base}, {"head", head}, {"7", {}}, out);
  REQUIRE(result.has_value());
  CHECK(result->rewritten == 2);
  CHECK(result->text ==
        base + "\n" + entry("b", pull(7) + "  # soon") + "\n" + entry("c", pull(7)) + "\n" + entry("d", pull(7)));
  CHECK(out.empty());
}

TEST_CASE("canonicalize: a head that breaks the rules is left alone") {
  diag::Diagnostics out;
  CHECK_FALSE(changelog::canonicalize(changelog::Revision{"base", kBase}, {"head", entry("b", "XXX")}, {"7", {}}, out)
                  .has_value());
  CHECK(out.has_errors());
}
