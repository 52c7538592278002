#include "orchestrator/plan/chunks.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

using namespace sweep;
using nlohmann::json;

namespace {

std::vector<plan::Bucket> buckets_of(size_t rows) {
  plan::Bucket bucket{"single_node/8k1k", {}};
  for (size_t i = 0; i < rows; ++i) bucket.rows.push_back("{\"conc\":" + std::to_string(i) + "}");
  return {bucket, {"evals", {"{}"}}};
}

}  // namespace

TEST_CASE("chunks: each row is in exactly one chunk of at most 256 rows, in order") {
  for (const size_t rows : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{512}, size_t{600}}) {
    const auto buckets = buckets_of(rows);
    const auto chunks = plan::make_chunks(buckets);
    size_t next = 0;
    for (const plan::Chunk& chunk : chunks) {
      const auto list = json::parse(chunk.json);
      CHECK(list.size() == chunk.rows);
      CHECK(chunk.rows <= plan::kMatrixJobs);
      if (chunk.bucket == "evals") continue;
      for (const json& row : list) CHECK(row["conc"] == next++);
    }
    CHECK(next == rows);
    CHECK(chunks.size() == (rows + 255) / 256 + 1);
    CHECK(chunks.back().id == "evals_1");
  }
}

TEST_CASE("chunks: a chunk stays below the size of an output, and a larger row stands alone") {
  plan::Bucket bucket{"b", {"{\"a\":\"" + std::string(100, 'x') + "\"}", "{}", "{}", "{}"}};
  const auto chunks = plan::make_chunks(std::span(&bucket, 1), {.rows = 256, .bytes = 16});
  REQUIRE(chunks.size() == 3);
  CHECK(chunks[0].rows == 1);
  CHECK(chunks[1].json == "[{},{}]");
  for (size_t i = 1; i < chunks.size(); ++i) CHECK(plan::utf16_bytes(chunks[i].json) <= 16);
}

TEST_CASE("chunks: the gate lists what must have run") {
  const auto gate = json::parse(plan::gate_json(plan::make_chunks(buckets_of(300))));
  REQUIRE(gate.size() == 3);
  CHECK(gate[0] == json({{"id", "single_node_8k1k_1"}, {"bucket", "single_node/8k1k"}, {"rows", 256}}));
  CHECK(gate[1]["rows"] == 44);
}

TEST_CASE("chunks: sizes count UTF-16") {
  CHECK(plan::utf16_bytes("ab") == 4);
  CHECK(plan::utf16_bytes("é") == 2);
  CHECK(plan::utf16_bytes("中") == 2);
  CHECK(plan::utf16_bytes("\xF0\x9F\x98\x80") == 4);
}
