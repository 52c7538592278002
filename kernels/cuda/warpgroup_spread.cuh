// WarpgroupWorker's PV where scales lie further apart than F16 allows: slow, and seldom needed.
#pragma once

#include "kernels/cuda/warpgroup.cuh"

namespace flashmla::cuda {

template <typename SharedLayout>
template <bool kSecond>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::accumulate_spread(int first, int here,
                                                                                 const float (&weights)[4 * kTiles]) {
  uint32_t pairs[2 * kTiles], rests[2 * kTiles];
  softmax_.split_bf16(weights, pairs, rests);
  softmax_.store_pairs(pairs);
#pragma unroll 1
  for (int part = 0; part < 2; ++part) {
    if (part == 1) softmax_.store_pairs(rests);
#pragma unroll 1
    for (int k = 0; k < here; ++k) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        // Values that are not exact in BF16 come as what BF16 has of them, and then the rest.
        constexpr int kRests = Format::kInnerScales >= 0 ? 2 : 1;
#pragma unroll 1
        for (int rest = 0; rest < kRests; ++rest) {
          ValueOperands a;
          if (known_mixed<kSecond>(set)) {
            spread_operands<true>(slot_of(first + k), set, rest == 1, a);
          } else {
            spread_operands<false>(slot_of(first + k), set, rest == 1, a);
          }
          issue_spread(k, set, a);
        }
      }
      if (part == 1) release(slot_of(first + k));
    }
    softmax_.sync_team();
  }
}

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::issue_spread(int k, int set, ValueOperands& a) {
  const uint32_t weights =
      b_descriptor(smem_address(shared_ + Layout::kWeights)) + ((team_ + k / 4) * Layout::kHalfBytes >> 4) + k % 4 * 2;
  pin(a);
  wgmma_fence();
#pragma unroll
  for (int m = 0; m < 4; ++m) wgmma_bf16(accumulators_[set][m], a[m], weights);
  wgmma_commit();
  wgmma_wait<0>();
#pragma unroll
  for (int m = 0; m < 4; ++m) pin(accumulators_[set][m]);
}

template <typename SharedLayout>
template <bool kMixed>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::spread_operands(int slot, int set, bool rest,
                                                                               ValueOperands& a) const {
  value_operands<kMixed>(shared_ + Layout::kRows + slot * Layout::kSlotBytes, set, a);
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    if (kMixed && 4 + m == Format::kBf16Chunk) continue;
    // In two steps: neither power needs to be a normal number by itself.
    const float by = exp2_fast((kScaleBits - read<float>(own_units(set, m))) / 2);
    float scale[4];
#pragma unroll
    for (int x = 0; x < 4; ++x) scale[x] = scale_of(scales_of_slot(slot), x, chunk_of(set, m)) * by * by;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float v[2] = {low_f16(a[m][r]) * scale[r / 2 * 2], high_f16(a[m][r]) * scale[r / 2 * 2 + 1]};
      a[m][r] = pack_bf16x2(v[0], v[1]);
      if (rest) {
        a[m][r] = rest_of_bf16(a[m][r], v[0], v[1]);
      }
    }
  }
}

}  // namespace flashmla::cuda
