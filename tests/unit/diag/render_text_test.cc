#include <fmt/format.h>

#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/diag/terminal_text.h"
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

// Columns on a terminal.
size_t printed_width(const std::string& text) {
  size_t width = 0;
  for (const Cell& cell : cells_of(text)) width += cell.width;
  return width;
}

// What stands in the source line above the mark, by columns.
std::string above_mark(const std::string& two_lines) {
  const size_t newline = two_lines.find('\n');
  const std::string source = two_lines.substr(0, newline);
  const std::string mark = two_lines.substr(newline + 1);
  const size_t begin = mark.find('^');
  const size_t end = mark.find('\n');
  std::string above;
  size_t column = 0;
  for (const Cell& cell : cells_of(source)) {
    if (column >= begin && column < end) above += cell.shown;
    column += cell.width;
  }
  return above;
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

TEST_CASE("text: wide characters, emoji and combining marks do not shift the mark") {
  const std::vector<std::string> before{"\xE6\xA8\xA1\xE5\x9E\x8B: ",             // two wide characters
                                        "\xF0\x9F\x9A\x80 ",                      // an emoji
                                        "e\xCC\x81\xCC\xB1 ",                     // e with two marks
                                        "\xEF\xBC\xA1\xEF\xBD\xB1 ",              // fullwidth and halfwidth
                                        "\xEA\xB0\x80\xE0\xA4\x95\xE0\xA5\x8D ",  // Hangul, a letter with virama
                                        "\t\t",
                                        "\xC2\x85 ",      // C1 control
                                        "\xE2\x80\xAE ",  // right-to-left override
                                        "\xF6\xDF "};     // no UTF-8
  for (const std::string& text : before) {
    INFO(printable(text));
    const auto column = static_cast<uint32_t>(text.size() + 1);
    CHECK(above_mark(shown(text + "MARK x", column, column + 4)) == "MARK");
  }
  // The mark is as wide as what it is under, and a combining mark is pointed at through its letter.
  CHECK(shown("x: \xE6\xA8\xA1\xE5\x9E\x8B y", 4, 10) == " 1 | x: \xE6\xA8\xA1\xE5\x9E\x8B y\n   |    ^~~~\n");
  CHECK(shown("ae\xCC\x81", 3, 5) == " 1 | ae\xCC\x81\n   |  ^\n");
  // A mark that begins inside a character begins with it.
  CHECK(shown("\xE6\xA8\xA1x", 2, 3) == shown("\xE6\xA8\xA1x", 1, 3));
}

TEST_CASE("text: what would reorder or hide text is spelled out") {
  CHECK(printable("a\xE2\x80\xAE"
                  "b\xE2\x81\xA6"
                  "c") == "a<U+202E>b<U+2066>c");
  CHECK(printable("a\xC2\x9B"
                  "31m") == "a<U+009B>31m");
  CHECK(printable("a\xE2\x80\x8B"
                  "b") == "a<U+200B>b");
  CHECK(printable("\xEF\xBB\xBFx") == "<U+FEFF>x");
  CHECK(printable(std::string_view("a\0b", 3)) == "a<U+0000>b");
  CHECK(printable("a\xFF") == "a\xEF\xBF\xBD");
  CHECK(printable("h\r\nx\ty") == "h  x y");
}

TEST_CASE("text: a line of a million bytes is shown in a window, wherever the mark is") {
  for (const std::string& unit :
       {std::string("x"), std::string("\xE6\xA8\xA1"), std::string("\xFF"), std::string("e\xCC\x81")}) {
    std::string line;
    while (line.size() < 1'000'000) line += unit;
    const size_t middle = line.size() / unit.size() / 2 * unit.size();
    for (const size_t at : {size_t{0}, middle, line.size() - unit.size(), line.size()}) {
      const auto column = static_cast<uint32_t>(at + 1);
      const std::string text = shown(line, column, column + 100'000);
      CHECK(printed_width(text.substr(0, text.find('\n'))) <= 5 + 3 + 100 + 3);
      CHECK(contains(text, "^"));
      CHECK(text.size() < 1200);
    }
  }
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
    CHECK(printed_width(source) <= 5 + 3 + 100 + 3);
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
