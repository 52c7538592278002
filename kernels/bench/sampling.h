// Which slots a call reads, drawn as upstream's times were measured: random pages, random tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/bench/device_shapes.h"
#include "kernels/oracle/random.h"

namespace flashmla::bench {

// Tokens a request's selection is drawn from.
constexpr int32_t kCompressedTokens = 8192;  // extra cache of V4, V4.1
constexpr int32_t kV32Tokens = 32768;

constexpr double kColdBytes = 220e6;  // distinct bytes read before any is read again; H200's L2 has 60 MB
constexpr int64_t kMaxColdSets = 1500;

// One cache of all requests, as a pool of its own.
struct CacheSelection {
  std::vector<int32_t> slots;  // [batch, s_q, topk], dense: [batch, pages] page numbers (the block table)
  int64_t pages = 0;           // in the pool
  int64_t unique_tokens = 0;
};

struct Selection {
  CacheSelection main, extra;
  int64_t unique_tokens() const { return main.unique_tokens + extra.unique_tokens; }
  int64_t pages() const { return main.pages + extra.pages; }
};

Selection select_tokens(const DeviceShape& shape, Random& random);

// Bytes of distinct tokens, and what a kernel reads that takes every query token's list by itself.
int64_t unique_bytes(const DeviceShape& shape, const Selection& selection);
int64_t attended_bytes(const DeviceShape& shape, const Selection& selection);

// Disjoint pools that one graph walks over, so that no byte is still in a cache when it is read again; at least 2.
int64_t cold_sets(int64_t bytes_per_launch);

}  // namespace flashmla::bench
