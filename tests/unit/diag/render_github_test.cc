#include "orchestrator/diag/render.h"

#include <algorithm>
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/load.h"
#include "tests/support/catch.h"

namespace sweep::diag {

TEST_CASE("github: one annotation per diagnostic, worst first, with its place") {
  Diagnostics d;
  d.add(make(rule::load_no_done, "w"));
  d.add(make_at(rule::file_malformed, {.file = "a/b.yaml", .line = 3, .column = 5, .end_column = 9}, "bad", "fix it"));
  CHECK(render_github(d) ==
        "::error file=a/b.yaml,line=3,col=5,endColumn=9,title=file/malformed::bad%0Ahelp: fix it\n"
        "::warning title=load/no-done::w\n");
}

TEST_CASE("github: text of a file can neither start a command nor end a property") {
  Diagnostics d;
  d.add(make_at(rule::file_malformed, {.file = "a,line=1::x\n::error::y", .line = 1}, "100%\r\n::set-env name=A::b"));
  const std::string text = render_github(d);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK(!contains(text, "\r"));
  CHECK(text ==
        "::error file=a%2Cline=1%3A%3Ax%0A%3A%3Aerror%3A%3Ay,line=1,title=file/malformed::"
        "100%25  ::set-env name=A::b\n");
}

TEST_CASE("github: path and notes are part of the message") {
  Diagnostics d;
  Diagnostic item = make(rule::file_malformed, "m");
  item.path = "entry.x";
  item.notes.push_back({.message = "here", .where = SourceSpan{.file = "f", .line = 2}});
  d.add(item);
  CHECK(render_github(d) == "::error title=file/malformed::m%0Aat: entry.x%0Anote: here (f:2)\n");
}

}  // namespace sweep::diag
