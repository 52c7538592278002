// Rows in pieces that GitHub Actions can take: at most 256 jobs a matrix, and outputs of at most 1 MB a job, counted in
// UTF-16 (docs.github.com, "Passing information between jobs"). Nothing is cut: each row is in exactly one chunk.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/plan/changes.h"

namespace sweep::plan {

inline constexpr size_t kMatrixJobs = 256;
inline constexpr size_t kJobOutputBytes = 1'000'000;

struct Chunk {
  std::string id;      // "single_node_8k1k_1", also the name of its output
  std::string bucket;  // "single_node/8k1k"
  size_t rows = 0;
  std::string json;  // a list of the rows, one line
};

struct ChunkLimits {
  size_t rows = kMatrixJobs;
  size_t bytes = kJobOutputBytes;  // of one chunk
};

// In the order of the buckets. A row that is larger than the limit is a chunk of its own.
std::vector<Chunk> make_chunks(std::span<const Bucket> buckets, const ChunkLimits& limits = {});

// [{"id", "bucket", "rows"}, ...] on one line: what must have run.
std::string gate_json(std::span<const Chunk> chunks);

// Bytes of a text in UTF-16.
size_t utf16_bytes(std::string_view utf8);

}  // namespace sweep::plan
