#include <fmt/format.h>

#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/load.h"
#include "tests/support/catch.h"

namespace sweep::diag {

namespace {

// The two lines under the headline: source and mark.
std::string shown(const std::string& line, uint32_t column, uint32_t end_column) {
  SourceMap sources;
  sources.add("f", line);
  const std::string text = render_text(
      make_at(rule::file_unreadable, {.file = "f", .line = 1, .column = column, .end_column = end_column}, "m"),
      sources);
  return text.substr(text.find('\n') + 1);
}

}  // namespace

TEST_CASE("text: a whole diagnostic, with path, help and notes, is stable") {
  SourceMap sources;
  sources.add("matrix/x.yaml", std::string(11, '\n') + "  concurency: [1, 2, 4]\n");
  Diagnostic d = make_at(rule::file_malformed, {.file = "matrix/x.yaml", .line = 12, .column = 3, .end_column = 13},
                         "unknown field \"concurency\"", "did you mean \"concurrency\"?");
  d.path = "entry.load";
  d.notes.push_back({.message = "first here", .where = SourceSpan{.file = "matrix/x.yaml", .line = 12, .column = 15}});
  d.notes.push_back({.message = "no place", .where = {}});
  CHECK(render_text(d, sources) ==
        "matrix/x.yaml:12:3: error: unknown field \"concurency\" [file/malformed]\n"
        " 12 |   concurency: [1, 2, 4]\n"
        "    |   ^~~~~~~~~~\n"
        "    = at: entry.load\n"
        "    = help: did you mean \"concurrency\"?\n"
        "matrix/x.yaml:12:15: note: first here\n"
        " 12 |   concurency: [1, 2, 4]\n"
        "    |               ^\n"
        "    = note: no place\n");
}

TEST_CASE("text: without a place, with a file only, and with a line only") {
  const SourceMap none;
  CHECK(render_text(make(rule::load_no_done, "m"), none) == "sweepctl: warning: m [load/no-done]\n");
  CHECK(render_text(make_at(rule::load_no_done, {.file = "f"}, "m"), none) == "f: warning: m [load/no-done]\n");
  CHECK(render_text(make_at(rule::load_no_done, {.file = "f", .line = 7}, "m"), none) ==
        "f:7: warning: m [load/no-done]\n");
}

TEST_CASE("text: the mark stands under multi-byte text and tabs") {
  CHECK(shown("\xC3\xA9\xC3\xA9: x", 7, 8) == " 1 | \xC3\xA9\xC3\xA9: x\n   |     ^\n");
  CHECK(shown("\xC3\xA9\xC3\xA9: x", 1, 5) == " 1 | \xC3\xA9\xC3\xA9: x\n   | ^~\n");
  CHECK(shown("\tkey: 1", 2, 5) == " 1 |  key: 1\n   |  ^~~\n");
}

TEST_CASE("text: a mark at, beyond and far beyond the end of the line") {
  CHECK(shown("abc", 4, 0) == " 1 | abc\n   |    ^\n");
  CHECK(shown("abc", 2, 400) == " 1 | abc\n   |  ^~\n");
  CHECK(shown("abc", 400, 401).empty());
  CHECK(shown("", 1, 2) == " 1 | \n   | ^\n");
}

TEST_CASE("text: long lines are shown as a window around the mark, cut between characters") {
  std::string line;
  for (int i = 0; i < 500; ++i) line += "\xC3\xA9";
  line += "MARK";
  for (int i = 0; i < 500; ++i) line += "\xC3\xA9";
  for (uint32_t shift = 0; shift < 2; ++shift) {
    const std::string text = shown(std::string(shift, 'x') + line, 1001 + shift, 1005 + shift);
    const size_t newline = text.find('\n');
    const std::string source = text.substr(0, newline);
    CHECK(contains(source, "MARK"));
    CHECK(source.size() < 130);
    CHECK(contains(source, " | ...\xC3\xA9"));
    CHECK(source.ends_with("\xC3\xA9..."));
    // The caret is under the M, counted in characters.
    size_t before = 0;
    for (const char c : source.substr(0, source.find("MARK"))) before += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    const std::string mark = text.substr(newline + 1);
    CHECK(mark.find('^') == before);
    CHECK(mark.ends_with("^~~~\n"));
  }
}

TEST_CASE("text: control characters of a file never reach the terminal") {
  SourceMap sources;
  sources.add("f\x1b", "a\x1b[31m\x07");
  Diagnostic d = make_at(rule::file_unreadable, {.file = "f\x1b", .line = 1, .column = 1}, "m\x1b]0;t\x07", "h\r\nx");
  d.path = "p\x1b";
  d.notes.push_back({.message = "n\x1b", .where = {}});
  const std::string text = render_text(d, sources);
  for (const char c : text) CHECK((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
}

TEST_CASE("text: at most so many are shown, then the count of all") {
  Diagnostics many;
  for (int i = 0; i < 60; ++i) many.add(make(rule::file_unreadable, fmt::format("m{}", i)));
  const std::string text = render_text(many, SourceMap());
  CHECK(contains(text, "m49 "));
  CHECK(!contains(text, "m50 "));
  CHECK(text.ends_with("50 of 60 shown\n"));
  CHECK(!contains(render_text(many, SourceMap(), {.most = 60}), "shown"));
}

TEST_CASE("text: colour is only there when asked for, and always ended") {
  const Diagnostic d = make_at(rule::file_unreadable, {.file = "f", .line = 1, .column = 1}, "m", "h");
  CHECK(!contains(render_text(d, SourceMap()), "\x1b"));
  const std::string coloured = render_text(d, SourceMap(), {.colour = true});
  CHECK(contains(coloured, "\x1b[1;31merror:\x1b[0m"));
  CHECK(coloured.rfind("\x1b[0m") > coloured.rfind("\x1b[1"));
}

TEST_CASE("text: counts are spelled with their plurals") {
  Diagnostics d;
  CHECK(count_text(d).empty());
  d.add(make(rule::load_no_done, "w"));
  CHECK(count_text(d) == "1 warning");
  d.add(make(rule::file_unreadable, "e"));
  CHECK(count_text(d) == "1 error, 1 warning");
  d.add(make(rule::file_unreadable, "e"));
  CHECK(count_text(d) == "2 errors, 1 warning");
}

}  // namespace sweep::diag
