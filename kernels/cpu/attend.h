// Attention of one query token over a stream of tokens that arrive one by one: sparse and dense decode differ only in
// where the tokens come from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tile_ops.h"

namespace flashmla::cpu {

// The heads of one query token that one thread computes together.
struct QueryRows {
  const uint16_t* q;
  int64_t q_head_stride;
  int32_t heads;         // real ones
  int32_t padded_heads;  // computed ones; the queries added are zero
  int32_t d_qk;
  const float* attn_sink;  // of the first head, or null
  float softmax_scale;
  uint16_t* out;
  int64_t out_head_stride;
  float* lse;
  int64_t lse_head_stride;
};

// Scratch memory of one thread and the attention that runs in it.
class Attention {
 public:
  static size_t scratch_bytes(int32_t padded_heads, int32_t d_qk);

  // `memory` is 64-byte aligned and has scratch_bytes(query.padded_heads, query.d_qk).
  Attention(void* memory, const QueryRows& query, const TileOps& ops);

  // Where the FP32 row [d_qk] of the next token goes; the caller fills it at once.
  float* add_token() {
    if (tokens_ == kTileTokens) attend_tile();
    return tile_ + tokens_++ * row_floats(query_.d_qk);
  }
  // Attends to what is left and writes the results.
  void end();

  const TileOps& ops() const { return ops_; }

 private:
  void attend_tile();

  const TileOps& ops_;
  const QueryRows query_;
  float* tile_;    // [kTileTokens][row_floats(d_qk)]
  float* q_;       // [heads][row_floats(d_qk)]
  float* out_;     // [heads][row_floats(512)]
  float* scores_;  // [heads][kTileTokens]
  SoftmaxState state_{};
  int32_t tokens_ = 0;
  bool any_token_ = false;
};

}  // namespace flashmla::cpu
