// Headers of safetensors files and the index over several of them. Format: huggingface/safetensors, README "Format":
// 8 bytes little-endian header length, a JSON header, the tensors' bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/weights/pin.h"

namespace sweep::weights {

inline constexpr std::string_view kShardSuffix = ".safetensors";

// Bits of one element; nothing for a type that is not known here.
std::optional<uint64_t> dtype_bits(std::string_view dtype);

struct ShardTensor {
  std::string name;
  uint64_t bytes = 0;
};

struct ShardHeader {
  std::vector<ShardTensor> tensors;  // by name, each once
  uint64_t data_bytes = 0;           // of all tensors
};

// Checks a header of a file of `file_size` bytes. `name` is what diagnostics call the file. Nothing if the header
// cannot be understood at all. Of many problems the first few are reported, and how many there are.
std::optional<ShardHeader> parse_shard_header(std::string_view header, uint64_t file_size, const std::string& name,
                                              diag::Diagnostics& diagnostics);

// Reads the header of a file and checks it.
std::optional<ShardHeader> read_shard_header(const std::filesystem::path& file, const std::string& name,
                                             diag::Diagnostics& diagnostics);

struct MappedTensor {
  std::string name;
  uint32_t file = 0;  // in ShardIndex::files
};

inline constexpr uint64_t kLargestIndex = uint64_t{256} << 20;  // bytes of its file

// {"metadata": {"total_size": N}, "weight_map": {TENSOR: FILE}}
struct ShardIndex {
  std::vector<std::string> files;        // each once
  std::vector<MappedTensor> weight_map;  // by name, each once
  std::optional<uint64_t> total_size;    // bytes of all tensors, without headers

  // Nothing without a total_size.
  std::optional<IndexTotals> totals() const;
};

// Nothing if the text is no index. File names that leave the folder are reported and left out. Read in shard_index.cc.
std::optional<ShardIndex> parse_index(std::string_view text, const std::string& name, diag::Diagnostics& diagnostics);

}  // namespace sweep::weights
