#include "orchestrator/engine/embedded/cuda/shard.h"

namespace sweep::engine::embedded::cuda {

namespace {

std::string not_divisible(const char* what, int64_t value, int64_t ranks) {
  return std::string(what) + " (" + std::to_string(value) + ") cannot be split among " + std::to_string(ranks) +
         " tensor-parallel ranks";
}

}  // namespace

std::string shard_problem(const ModelConfig& config, int64_t ranks) {
  if (ranks < 1) return "the number of tensor-parallel ranks is below 1";
  if (config.num_attention_heads % ranks != 0)
    return not_divisible("\"num_attention_heads\"", config.num_attention_heads, ranks);
  if (config.intermediate_size % ranks != 0)
    return not_divisible("\"intermediate_size\"", config.intermediate_size, ranks);
  const int64_t heads = config.num_attention_heads / ranks;
  const int64_t group_heads = config.num_attention_heads / config.o_groups;
  if (heads % group_heads != 0 && group_heads % heads != 0)
    return not_divisible("\"o_groups\"", config.o_groups, ranks);
  return {};
}

Shard shard_of(const ModelConfig& config, int64_t rank, int64_t ranks) {
  Shard shard;
  shard.heads = config.num_attention_heads / ranks;
  shard.first_head = rank * shard.heads;
  const int64_t group_heads = config.num_attention_heads / config.o_groups;
  shard.first_group = shard.first_head / group_heads;
  if (shard.heads >= group_heads) {
    shard.groups = shard.heads / group_heads;
    shard.group_columns = group_heads * kValueDim;
  } else {
    shard.groups = 1;
    shard.first_group_column = shard.first_head % group_heads * kValueDim;
    shard.group_columns = shard.heads * kValueDim;
  }
  shard.intermediate = config.intermediate_size / ranks;
  shard.first_intermediate = rank * shard.intermediate;
  return shard;
}

}  // namespace sweep::engine::embedded::cuda
