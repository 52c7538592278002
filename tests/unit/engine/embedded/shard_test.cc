// How a model is divided among tensor-parallel ranks.
#include "orchestrator/engine/embedded/cuda/shard.h"

#include <vector>

#include "tests/support/catch.h"

using namespace sweep::engine::embedded;
using namespace sweep::engine::embedded::cuda;

namespace {

ModelConfig config_of(int64_t heads, int64_t groups, int64_t intermediate) {
  ModelConfig config;
  config.num_attention_heads = heads;
  config.o_groups = groups;
  config.intermediate_size = intermediate;
  return config;
}

}  // namespace

TEST_CASE("shard: one rank has everything") {
  const Shard shard = shard_of(config_of(16, 4, 100), 0, 1);
  CHECK(shard.first_head == 0);
  CHECK(shard.heads == 16);
  CHECK(shard.groups == 4);
  CHECK(shard.group_columns == 4 * 512);
  CHECK(shard.intermediate == 100);
}

TEST_CASE("shard: ranks take heads and their groups in order, without gap or overlap") {
  for (const int64_t ranks : {1, 2, 4, 8}) {
    const ModelConfig config = config_of(16, 8, 64);
    REQUIRE(shard_problem(config, ranks).empty());
    int64_t head = 0;
    int64_t intermediate = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const Shard shard = shard_of(config, rank, ranks);
      CHECK(shard.first_head == head);
      CHECK(shard.first_intermediate == intermediate);
      // Two heads to a group: the groups of a rank are those of its heads.
      CHECK(shard.first_group == head / 2);
      CHECK(shard.groups * shard.group_columns == shard.heads * 512);
      head += shard.heads;
      intermediate += shard.intermediate;
    }
    CHECK(head == 16);
    CHECK(intermediate == 64);
  }
}

TEST_CASE("shard: ranks with less than a group share it by columns") {
  const ModelConfig config = config_of(8, 1, 64);
  std::vector<int64_t> columns;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const Shard shard = shard_of(config, rank, 4);
    CHECK(shard.first_group == 0);
    CHECK(shard.groups == 1);
    CHECK(shard.group_columns == 1024);
    columns.push_back(shard.first_group_column);
  }
  CHECK(columns == std::vector<int64_t>{0, 1024, 2048, 3072});
}

TEST_CASE("shard: the ranks' output projections add up to the whole one") {
  // out = o_b . concat over groups of (o_a . values of the group), with small integers: exact in any order.
  const ModelConfig config = [] {
    ModelConfig c = config_of(4, 2, 64);
    c.o_lora_rank = 3;
    return c;
  }();
  const int64_t group_size = config.output_size() / config.o_groups;
  const auto o_a = [](int64_t row, int64_t column) { return (row * 7 + column * 3) % 5 - 2; };
  const auto o_b = [](int64_t column) { return column % 3 - 1; };
  const auto value = [](int64_t column) { return column % 11 - 5; };
  const auto output = [&](const Shard& shard) {
    int64_t sum = 0;
    for (int64_t group = 0; group < shard.groups; ++group) {
      for (int64_t r = 0; r < config.o_lora_rank; ++r) {
        const int64_t row = (shard.first_group + group) * config.o_lora_rank + r;
        int64_t inner = 0;
        for (int64_t c = 0; c < shard.group_columns; ++c) {
          const int64_t own = group * shard.group_columns + c;  // among the rank's values
          inner += o_a(row, shard.first_group_column + c) * value(shard.first_head * 512 + own);
        }
        sum += o_b(row) * inner;
      }
    }
    return sum;
  };
  CHECK(group_size == 1024);
  const int64_t whole = output(shard_of(config, 0, 1));
  CHECK(whole != 0);
  for (const int64_t ranks : {2, 4}) {
    int64_t sum = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) sum += output(shard_of(config, rank, ranks));
    CHECK(sum == whole);
  }
}

TEST_CASE("shard: what cannot be divided is refused by name") {
  CHECK(contains(shard_problem(config_of(6, 2, 64), 4), "num_attention_heads"));
  CHECK(contains(shard_problem(config_of(8, 2, 66), 4), "intermediate_size"));
  // Three groups of four heads among two ranks of six.
  CHECK(contains(shard_problem(config_of(12, 3, 64), 2), "o_groups"));
  CHECK(!shard_problem(config_of(8, 2, 64), 0).empty());
}
