// The inner operations of attention on a tile of tokens. One table per instruction set; which table runs is decided
// once per process. The driver (attend.cc) is the same for all.
//
// Every operation treats each head by itself, in an order that depends on nothing but the token count of the tile:
// the same head gets the same bytes whatever other heads, and how many, are computed next to it.
#pragma once

#include <cstdint>

#include "flashmla/flashmla.h"
#include "kernels/api/layout.h"

namespace flashmla::cpu {

constexpr int32_t kTileTokens = 64;  // one rescaling of the accumulators per tile
constexpr int32_t kMaxKeyDims = 576;
// FP32 rows in scratch memory are this much longer than their content: rows that are a power of two apart would compete
// for the same few lines of the L1 cache.
constexpr int32_t kRowPadding = 16;

constexpr int64_t row_floats(int32_t dims) {
  return dims + kRowPadding;
}

// Online softmax, one entry per head.
struct SoftmaxState {
  float* max;      // largest scaled score so far; -inf before the first tile
  double* sum;     // sum of exp(score - max) so far
  float* rescale;  // what the last tile's new maximum multiplies earlier accumulators with
};

struct TileOps {
  const char* isa;

  // BF16 -> FP32.
  void (*widen)(const uint16_t* bf16, int32_t count, float* out);

  // One record -> FP32 [d_qk].
  void (*dequantise)(flashmla_kv_format format, Record record, float* row);

  // scores[h * kTileTokens + t] = q[h] . tile[t]. q is FP32 [heads][row_floats(d_qk)], the tile [tokens][same].
  void (*score)(const float* q, int32_t heads, int32_t d_qk, const float* tile, int32_t tokens, float* scores);

  // Turns the scores of a tile into exp(scale * score - max) in place and updates the state.
  void (*softmax)(float* scores, int32_t heads, int32_t tokens, float scale, const SoftmaxState& state);

  // out[h] = out[h] * rescale[h] + sum over t of p[h * kTileTokens + t] * tile[t]. out is FP32
  // [heads][row_floats(512)]; the tile's rows are `stride` floats apart.
  void (*accumulate)(const float* p, int32_t heads, const float* tile, int64_t stride, int32_t tokens,
                     const float* rescale, float* out);

  // FP32 * factor -> BF16, to nearest even.
  void (*narrow)(const float* row, float factor, int32_t count, uint16_t* bf16);
};

// All 256 values of E4M3.
struct E4m3Table {
  float of[256];
};
extern const E4m3Table kE4m3Values;

extern const TileOps kGenericTileOps;
#if defined(__x86_64__)
extern const TileOps kAvx2TileOps;
extern const TileOps kAvx512TileOps;
#endif

// The tables that this machine runs, from the reference to the fastest.
struct TileOpsList {
  const TileOps* of[3];
  int32_t count;
};
TileOpsList available_tile_ops();

// The fastest table this machine runs. The environment variable FLASHMLA_CPU_ISA (generic, avx2 or avx512) can ask for
// a lesser one, which is how the tests reach all of them; a name that is unknown or not possible here is ignored.
const TileOps& tile_ops();

}  // namespace flashmla::cpu
