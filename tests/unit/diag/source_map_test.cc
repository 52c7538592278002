#include "orchestrator/diag/source_map.h"

#include "tests/support/catch.h"

namespace sweep::diag {

TEST_CASE("source map: lines by number, without their ends") {
  SourceMap sources;
  sources.add("f", "one\r\ntwo\n\nlast");
  CHECK(sources.line("f", 1) == "one");
  CHECK(sources.line("f", 2) == "two");
  CHECK(sources.line("f", 3) == "");
  CHECK(sources.line("f", 4) == "last");
  CHECK(!sources.line("f", 5));
  CHECK(!sources.line("f", 0));
  CHECK(!sources.line("g", 1));
  sources.add("f", "new");
  CHECK(sources.line("f", 1) == "new");
}

}  // namespace sweep::diag
