#include "orchestrator/report/table.h"

#include "tests/support/catch.h"

using namespace sweep;

namespace {
const report::Table kTable{{{"name"}, {"n", true}}, {{"a|b\n*c*", "1"}, {"长", "22"}}};
}

TEST_CASE("table: text from files is no markup and breaks no row") {
  CHECK(report::render(kTable, report::TableStyle::kMarkdown) ==
        "| name | n |\n|---|---:|\n| a\\|b \\*c\\* | 1 |\n| 长 | 22 |\n");
  CHECK(report::escape_markdown("<script>&[x](y)\r# `z`") == "&lt;script>&amp;\\[x\\](y) \\# \\`z\\`");
}

TEST_CASE("table: columns are aligned for the terminal, wide letters taking two") {
  CHECK(report::render(kTable, report::TableStyle::kText) ==
        "  name      n\n"
        "  a|b *c*   1\n"
        "  长       22\n");
}

TEST_CASE("table: without rows there is no table") {
  CHECK(report::render({{{"name"}}, {}}, report::TableStyle::kMarkdown).empty());
}

TEST_CASE("table: long text is cut between characters") {
  CHECK(report::shortened("abc", 3) == "abc");
  CHECK(report::shortened("abcd", 3) == "abc...");
  CHECK(report::shortened("a长b", 2) == "a...");
}
