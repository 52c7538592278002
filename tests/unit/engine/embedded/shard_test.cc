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

TEST_CASE("shard: what cannot be divided is refused by name") {
  CHECK(contains(shard_problem(config_of(6, 2, 64), 4), "num_attention_heads"));
  CHECK(contains(shard_problem(config_of(8, 2, 66), 4), "intermediate_size"));
  // Three groups of four heads among two ranks of six.
  CHECK(contains(shard_problem(config_of(12, 3, 64), 2), "o_groups"));
  CHECK(!shard_problem(config_of(8, 2, 64), 0).empty());
}
