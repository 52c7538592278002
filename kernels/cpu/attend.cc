#include "kernels/cpu/attend.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flashmla::cpu {
namespace {

constexpr int64_t kAlignment = kWorkspaceAlignment;

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Hands out 64-byte aligned pieces of a block of memory.
class Carver {
 public:
  explicit Carver(void* memory) : next_(static_cast<uint8_t*>(memory)) {}

  template <typename T>
  T* take(int64_t count) {
    void* piece = next_;
    next_ += round_up(count * int64_t{sizeof(T)}, kAlignment);
    return static_cast<T*>(piece);
  }

 private:
  uint8_t* next_;
};

int64_t piece(int64_t bytes) {
  return round_up(bytes, kAlignment);
}

}  // namespace

size_t Attention::scratch_bytes(int32_t padded_heads, int32_t d_qk) {
  const int64_t heads = padded_heads;
  const int64_t floats = sizeof(float);
  const int64_t bytes = piece(kTileTokens * row_floats(d_qk) * floats) + piece(heads * row_floats(d_qk) * floats) +
                        piece(heads * row_floats(kValueDims) * floats) + piece(heads * kTileTokens * floats) +
                        2 * piece(heads * floats) + piece(heads * int64_t{sizeof(double)});
  return static_cast<size_t>(bytes);
}

Attention::Attention(void* memory, const QueryRows& query, const TileOps& ops) : ops_(ops), query_(query) {
  const int64_t heads = query.padded_heads;
  const int64_t q_row = row_floats(query.d_qk);
  Carver carver(memory);
  tile_ = carver.take<float>(kTileTokens * q_row);
  q_ = carver.take<float>(heads * q_row);
  out_ = carver.take<float>(heads * row_floats(kValueDims));
  scores_ = carver.take<float>(heads * kTileTokens);
  state_.max = carver.take<float>(heads);
  state_.rescale = carver.take<float>(heads);
  state_.sum = carver.take<double>(heads);

  for (int32_t h = 0; h < query.heads; ++h) {
    ops_.widen(query.q + h * query.q_head_stride, query.d_qk, q_ + h * q_row);
  }
  for (int32_t h = query.heads; h < query.padded_heads; ++h) std::fill_n(q_ + h * q_row, query.d_qk, 0.0F);
  std::fill_n(out_, heads * row_floats(kValueDims), 0.0F);
  std::fill_n(state_.max, heads, -std::numeric_limits<float>::infinity());
  std::fill_n(state_.sum, heads, 0.0);
}

void Attention::attend_tile() {
  ops_.score(q_, query_.padded_heads, query_.d_qk, tile_, tokens_, scores_);
  ops_.softmax(scores_, query_.padded_heads, tokens_, query_.softmax_scale, state_);
  ops_.accumulate(scores_, query_.padded_heads, tile_, row_floats(query_.d_qk), tokens_, state_.rescale, out_);
  any_token_ = true;
  tokens_ = 0;
}

void Attention::end() {
  if (tokens_ > 0) attend_tile();
  for (int32_t h = 0; h < query_.heads; ++h) {
    uint16_t* out = query_.out + h * query_.out_head_stride;
    float* lse = query_.lse + h * query_.lse_head_stride;
    if (!any_token_) {
      std::fill_n(out, kValueDims, uint16_t{0});
      *lse = std::numeric_limits<float>::infinity();
      continue;
    }
    const double maximum = state_.max[h];
    double denominator = state_.sum[h];
    *lse = static_cast<float>(maximum + std::log(denominator));
    if (query_.attn_sink != nullptr) denominator += std::exp(static_cast<double>(query_.attn_sink[h]) - maximum);
    ops_.narrow(out_ + h * row_floats(kValueDims), static_cast<float>(1.0 / denominator), kValueDims, out);
  }
}

}  // namespace flashmla::cpu
