// Which part of each layer a tensor-parallel rank holds. Attention is split by heads, the MLP by its inner dimension;
// everything else is on every rank. Arithmetic only: needs no GPU.
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/engine/embedded/model_config.h"

namespace sweep::engine::embedded::cuda {

// Half-open ranges of the whole model's dimensions.
struct Shard {
  int64_t first_head = 0;
  int64_t heads = 0;
  // Output projection: the groups that the heads belong to. A rank with less than a group takes those columns of the
  // group's first factor that its heads feed; both factors are linear, so that ranks add up to the whole.
  int64_t first_group = 0;
  int64_t groups = 0;
  int64_t first_group_column = 0;  // inside the group
  int64_t group_columns = 0;       // of each group
  int64_t first_intermediate = 0;
  int64_t intermediate = 0;
};

// Why the model cannot be split among `ranks`; empty if it can.
std::string shard_problem(const ModelConfig& config, int64_t ranks);

// Of rank `rank`, 0 <= rank < ranks; the model can be split.
Shard shard_of(const ModelConfig& config, int64_t rank, int64_t ranks);

}  // namespace sweep::engine::embedded::cuda
