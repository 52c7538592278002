// Queries into shared memory, scaled to the range of F16.
#pragma once

#include "kernels/cuda/arguments.h"
#include "kernels/cuda/fetch.cuh"

namespace flashmla::cuda {

// Which query a head of the block is, and where its results go.
struct Head {
  bool real;  // false: behind the last head, a query of zeros
  int32_t token, number;
};

template <typename Format>
__device__ __forceinline__ Head head_of(const DecodeArguments& a, const Place& place, int32_t head) {
  const int32_t index = place.first_head + head;
  if constexpr (kDense<Format>) {
    const int32_t token = index / a.num_heads;
    return {token < a.s_q, token, index - token * a.num_heads};
  } else {
    return {index < a.num_heads, place.token, index};
  }
}

__device__ __forceinline__ int64_t at(const Rows& stride, int32_t b, const Head& head) {
  return b * stride.batch + head.token * stride.token + head.number * stride.head;
}

__device__ __forceinline__ float bf16_to_float(uint32_t bits) {
  return __uint_as_float(bits << 16);
}

// What `rounded`, {low, high} as BF16, lacks of them, as BF16.
__device__ __forceinline__ uint32_t rest_of_bf16(uint32_t rounded, float low, float high) {
  return pack_bf16x2(low - bf16_to_float(rounded & 0xffffU), high - bf16_to_float(rounded >> 16));
}

__device__ __forceinline__ float power_of_two(int32_t exponent) {
  return __int_as_float((exponent + 127) << 23);
}

// A query times the power of two that brings its largest element to [2^14, 2^15): F16 is then exact for every element
// down to 2^-31 of it, and off by at most 2^-39 of it below that. The power comes back in the factor of the head,
// softmax_scale * log2(e) * 2^-power. BF16 chunks stay BF16.
template <typename Layout>
struct QueryConverter {
  using Format = typename Layout::Format;
  static constexpr int kPieces = Layout::kQueryDims / 8;  // of 8 elements, as BF16
  static constexpr int kPerLane = (kPieces + 31) / 32;    // pieces `lane`, `lane` + 32, ..

  // One warp asks for a head.
  __device__ __forceinline__ static void load(const DecodeArguments& a, const Place& place, const Head& head, int lane,
                                              uint4 (&piece)[kPerLane]) {
    const uint16_t* q = a.q + at(a.q_stride, place.b, head);
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) piece[k] = {0, 0, 0, 0};
    if (!head.real) return;
    // Two loops: in one the aligned loads would be waited for at once.
    if (a.q_aligned) {
#pragma unroll
      for (int k = 0; k < kPerLane; ++k) {
        if (lane + 32 * k < kPieces) piece[k] = __ldg(reinterpret_cast<const uint4*>(q + 8 * (lane + 32 * k)));
      }
    } else {
#pragma unroll
      for (int k = 0; k < kPerLane; ++k) {
        if (lane + 32 * k < kPieces) piece[k] = load_elements(q + 8 * (lane + 32 * k));
      }
    }
  }

  // One warp.
  __device__ __forceinline__ static void store(const DecodeArguments& a, uint8_t* shared, int h, int lane,
                                               const uint4 (&piece)[kPerLane]) {
    uint32_t largest = 0;
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) largest = max(largest, largest_of(piece[k]));
    const int32_t power = power_of(__reduce_max_sync(~0U, largest));
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      const int p = lane + 32 * k;
      if (p < kPieces) convert(shared, h, p, piece[k], power_of_two(power));
    }
    if (lane == 0) write_factor(a, shared, h, power);
  }

  // Bits of the largest magnitude.
  __device__ __forceinline__ static uint32_t largest_of(const uint4& piece) {
    const uint32_t w[4] = {piece.x, piece.y, piece.z, piece.w};
    uint32_t largest = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) largest = max(largest, max(w[j] & 0x7fffU, w[j] >> 16 & 0x7fffU));
    return largest;
  }

  // Subnormal queries count as the smallest normal one, NaN and infinity as the largest.
  __device__ __forceinline__ static int32_t power_of(uint32_t largest) {
    const int32_t exponent = min(max(static_cast<int32_t>(largest >> 7), 1), 254) - 127;
    return min(14 - exponent, 126);
  }

  __device__ __forceinline__ static void convert(uint8_t* shared, int h, int p, const uint4& piece, float scale) {
    const uint32_t w[4] = {piece.x, piece.y, piece.z, piece.w};
    float v[8];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      v[2 * j] = bf16_to_float(w[j] & 0xffffU) * scale;
      v[2 * j + 1] = bf16_to_float(w[j] >> 16) * scale;
    }
    write_piece(shared, h, p, v);
  }

  __device__ __forceinline__ static void write_factor(const DecodeArguments& a, uint8_t* shared, int h, int32_t power) {
    // 2^-power, which may be less than the smallest normal number in one step.
    const float back = power_of_two(-power / 2) * power_of_two(-power - -power / 2);
    write(shared + Layout::kFactors + 8 * h, float2{a.scale_high * back, a.scale_low * back});
  }

  // Dimensions 8p .. 8p + 7 of head h.
  __device__ __forceinline__ static void write_piece(uint8_t* shared, int h, int p, const float (&v)[8]) {
    const bool bf16 = kDense<Format> || p / 8 == Format::kBf16Chunk;
    // E2M1: dimensions k and k + 4 side by side.
    constexpr int kNext = Format::kChunk == Chunk::kScaledE2m1 ? 4 : 1;
    constexpr int kStep = kNext == 1 ? 2 : 1;
    uint32_t pairs[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float first = v[kStep * k], second = v[kStep * k + kNext];
      pairs[k] = bf16 ? pack_bf16x2(v[2 * k], v[2 * k + 1]) : pack_f16x2(first, second);
    }
    Layout::write_query(shared, h, p, pairs);
  }
};

// The warps take the heads in turn, kBatch at a time.
template <typename SharedLayout>
class QueryLoader {
 public:
  using Layout = SharedLayout;
  using Format = typename Layout::Format;
  static constexpr int kHeads = Layout::kHeads;

  __device__ __forceinline__ QueryLoader(const DecodeArguments& a, const Place& place, uint8_t* shared, int warp,
                                         int lane)
      : a_(a), place_(place), shared_(shared), warp_(warp), lane_(lane) {}

  // Asks for the first batch, so that it is on its way while other things are done.
  __device__ __forceinline__ void start() { load(0); }

  __device__ __forceinline__ void finish() {
#pragma unroll 1
    for (int first = 0; first < kHeads; first += kWarps * kBatch) {
      if (first > 0) load(first);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        QueryConverter<Layout>::store(a_, shared_, first + kWarps * i + warp_, lane_, piece_[i]);
      }
    }
  }

 private:
  static constexpr int kBatch = Layout::kQueryBatch;
  static constexpr int kPerLane = QueryConverter<Layout>::kPerLane;

  __device__ __forceinline__ void load(int first) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const Head head = head_of<Format>(a_, place_, first + kWarps * i + warp_);
      QueryConverter<Layout>::load(a_, place_, head, lane_, piece_[i]);
    }
  }

  const DecodeArguments& a_;
  const Place& place_;
  uint8_t* shared_;
  const int warp_, lane_;
  uint4 piece_[kBatch][kPerLane];
};

}  // namespace flashmla::cuda
