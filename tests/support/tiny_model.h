// A small model on disk: safetensors shards, index, config and tokenizer, the same bytes for the same seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sweep::test {

struct TinyModel {
  int shards = 3;
  int tensors_per_shard = 2;
  int rows = 4;  // of each BF16 tensor of 8 columns
  uint64_t seed = 1;
};

std::string shard_name(int shard, int shards);  // shard from 1

// A safetensors file from a header text and the bytes of its tensors.
std::string safetensors(const std::string& header, const std::string& data);

// Writes the model into an existing folder.
void write_tiny_model(const std::filesystem::path& dir, const TinyModel& model = {});

}  // namespace sweep::test
