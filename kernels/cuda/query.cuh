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

__device__ __forceinline__ float power_of_two(int32_t exponent) {
  return __int_as_float((exponent + 127) << 23);
}

// A query times the power of two that brings its largest element to [2^14, 2^15): F16 is then exact for every element
// down to 2^-31 of it, and off by at most 2^-39 of it below that. The power comes back in the factor of the head,
// softmax_scale * log2(e) * 2^-power. BF16 chunks stay BF16. The warps take the heads in turn, kBatch at a time.
template <typename Format, int kHeads, int kGroups>
class QueryLoader {
 public:
  using Layout = SharedLayout<Format, kHeads, kGroups>;

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
      for (int i = 0; i < kBatch; ++i) store(first + kWarps * i + warp_, piece_[i]);
    }
  }

 private:
  static constexpr int kBatch = kHeads >= 2 * kWarps ? 2 : 1;
  static constexpr int kPieces = Layout::kQueryDims / 8;  // of 8 elements
  static constexpr int kPerLane = (kPieces + 31) / 32;

  __device__ __forceinline__ void load(int first) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const Head head = head_of<Format>(a_, place_, first + kWarps * i + warp_);
      const uint16_t* q = a_.q + at(a_.q_stride, place_.b, head);
#pragma unroll
      for (int k = 0; k < kPerLane; ++k) {
        const int p = lane_ + 32 * k;
        piece_[i][k] = {0, 0, 0, 0};
        if (p >= kPieces || !head.real) continue;
        if (a_.q_aligned) {
          piece_[i][k] = __ldg(reinterpret_cast<const uint4*>(q + 8 * p));
        } else {
          uint32_t w[4];
          for (int j = 0; j < 4; ++j) w[j] = q[8 * p + 2 * j] | static_cast<uint32_t>(q[8 * p + 2 * j + 1]) << 16;
          piece_[i][k] = {w[0], w[1], w[2], w[3]};
        }
      }
    }
  }

  __device__ __forceinline__ void store(int h, const uint4 (&piece)[kPerLane]) {
    uint32_t largest = 0;
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      const uint32_t w[4] = {piece[k].x, piece[k].y, piece[k].z, piece[k].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) largest = max(largest, max(w[j] & 0x7fffU, w[j] >> 16 & 0x7fffU));
    }
    largest = __reduce_max_sync(~0U, largest);
    // The exponent; subnormal queries count as the smallest normal one, NaN and infinity as the largest.
    const int32_t exponent = min(max(static_cast<int32_t>(largest >> 7), 1), 254) - 127;
    const int32_t power = min(14 - exponent, 126);
    const float scale = power_of_two(power);
    uint8_t* row = shared_ + Layout::kQuery + h * Layout::kQueryStride;
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      const int p = lane_ + 32 * k;
      if (p >= kPieces) continue;
      const uint32_t w[4] = {piece[k].x, piece[k].y, piece[k].z, piece[k].w};
      float v[8];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        v[2 * j] = bf16_to_float(w[j] & 0xffffU) * scale;
        v[2 * j + 1] = bf16_to_float(w[j] >> 16) * scale;
      }
      if (kDense<Format> || p / 8 == Format::kBf16Chunk) {
        write(row + 16 * p, uint4{pack_bf16x2(v[0], v[1]), pack_bf16x2(v[2], v[3]), pack_bf16x2(v[4], v[5]),
                                  pack_bf16x2(v[6], v[7])});
      } else if constexpr (Format::kChunk == Chunk::kScaledE2m1) {  // dimensions k and k + 4 side by side
        write(row + 16 * p,
              uint4{pack_f16x2(v[0], v[4]), pack_f16x2(v[1], v[5]), pack_f16x2(v[2], v[6]), pack_f16x2(v[3], v[7])});
      } else {
        write(row + 16 * p,
              uint4{pack_f16x2(v[0], v[1]), pack_f16x2(v[2], v[3]), pack_f16x2(v[4], v[5]), pack_f16x2(v[6], v[7])});
      }
    }
    if (lane_ == 0) {
      // 2^-power, which may be less than the smallest normal number in one step.
      const float back = power_of_two(-power / 2) * power_of_two(-power - -power / 2);
      write(shared_ + Layout::kFactors + 8 * h, float2{a_.scale_high * back, a_.scale_low * back});
    }
  }

  const DecodeArguments& a_;
  const Place& place_;
  uint8_t* shared_;
  const int warp_, lane_;
  uint4 piece_[kBatch][kPerLane];
};

}  // namespace flashmla::cuda
