#include "orchestrator/report/github_files.h"

#include "tests/support/catch.h"

using namespace sweep;
using report::StepOutput;

TEST_CASE("step outputs: no value ends its output early or begins another") {
  const std::vector<StepOutput> outputs{{"a", "1"}, {"b", "x\nsweepctl_end_0\nc<<sweepctl_end_1\ny"}};
  CHECK(report::output_lines(outputs) ==
        "a<<sweepctl_end_0\n1\nsweepctl_end_0\n"
        "b<<sweepctl_end_2\nx\nsweepctl_end_0\nc<<sweepctl_end_1\ny\nsweepctl_end_2\n");
}

TEST_CASE("step outputs: the size counts what escaping adds") {
  const std::vector<StepOutput> plain{{"a", "xx"}};
  const std::vector<StepOutput> quoted{{"a", "\"\""}};
  CHECK(report::output_bytes(plain) == 2 * std::string("{\"a\":\"xx\"}").size());
  CHECK(report::output_bytes(quoted) == report::output_bytes(plain) + 4);
}

TEST_CASE("step summary: one line a bucket, with the total") {
  const std::vector<plan::Chunk> chunks{{"x_1", "x", 256, "[]"}, {"x_2", "x", 4, "[]"}, {"evals_1", "evals", 1, "[]"}};
  CHECK(report::chunk_markdown(chunks) ==
        "**261 jobs** in 3 chunks of at most 256\n\n"
        "| bucket | jobs | chunks |\n|---|---:|---:|\n| `x` | 260 | 2 |\n| `evals` | 1 | 1 |\n");
  CHECK(report::chunk_text(chunks) ==
        "bucket    jobs  chunks\n"
        "x          260       2\n"
        "evals        1       1\n"
        "all        261       3\n");
  CHECK(report::chunk_markdown({}) == "**0 jobs** in 0 chunks of at most 256\n\n");
}
