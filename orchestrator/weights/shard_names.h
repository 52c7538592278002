// The numbered names of shards: STEM-00001-of-00048.safetensors.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace sweep::weights {

struct ShardNumber {
  uint64_t number = 0;
  uint64_t of = 0;
};

// Nothing if the name is not numbered in this way. The number of digits is free: both widths need not agree.
std::optional<ShardNumber> shard_number(std::string_view name, std::string_view stem);

// What is wrong with the numbers of all shards of a model. They count from 1, or from 0, up to N or N - 1; a few models
// were published as 0 to N. Empty if nothing is wrong.
std::string numbering_problem(const std::set<uint64_t>& numbers, uint64_t of);

}  // namespace sweep::weights
