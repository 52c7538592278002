// The decode kernel: a block attends to a part of the tokens of one row for up to kHeads heads; the blocks of a cluster
// share a row and merge their results through distributed shared memory.
#pragma once

#include "kernels/cuda/bf16_weights.cuh"
#include "kernels/cuda/rescale.cuh"
#include "kernels/cuda/score.cuh"

namespace flashmla::cuda {

// {reference of the first chunk, of the last, maximum, sum} of a head, after Worker::publish_sums().
template <typename Layout>
__device__ __forceinline__ float4 summary_of(const uint8_t* shared, int head) {
  constexpr int kGroups = Layout::kGroups;
  float2 part[kGroups];
  float maximum = kNoMaximum;
#pragma unroll
  for (int k = 0; k < kGroups; ++k) {
    part[k] = read<float2>(shared + Layout::kSums + 8 * (k * Layout::kHeads + head));
    maximum = fmaxf(maximum, part[k].x);
  }
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kGroups; ++k) sum += part[k].y * exp2_fast(part[k].x - maximum);
  const auto references = read<float2>(shared + Layout::kReferences + 8 * head);
  return {references.x, references.y, maximum, sum};
}

// Everything a warp does for the tokens of the block. In QK^T it has a group of 16 tokens, or a half of one; in PV a
// chunk of 64 value dimensions, for all tokens and heads.
template <typename Format, int kHeads, int kGroups>
class Worker {
 public:
  using Layout = SharedLayout<Format, kHeads, kGroups>;
  static constexpr bool kHalves = kHalvesChunks<kHeads, kGroups>;
  static constexpr bool kSplitsHeads = kHeadParts<kHeads, kGroups> != 1;
  static constexpr int kTiles = kHeads / 8;                                     // of heads, in the value product
  static constexpr int kScoreTiles = kHeads / 8 / kHeadParts<kHeads, kGroups>;  // and in a warp's score product

  __device__ __forceinline__ Worker(const DecodeArguments& a, const Place& place, const TokenRange& range,
                                    uint8_t* shared, int warp, int lane)
      : a_(a),
        place_(place),
        range_(range),
        shared_(shared),
        fetcher_(a, place, range, shared, warp, lane),
        lane_(lane),
        g_(lane >> 2),
        c_(lane & 3),
        group_(warp % kGroups),
        sharer_(warp / kGroups),
        first_head_(kSplitsHeads ? sharer_ * 8 * kScoreTiles : 0),
        chunk_(warp) {
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
      softmax_.maximum[n][0] = softmax_.maximum[n][1] = kNoMaximum;
      softmax_.sum[n][0] = softmax_.sum[n][1] = 0;
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) rescale_.reference[n] = kNoMaximum;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int k = 0; k < 4; ++k) accumulators_[m][n][k] = 0;
      }
    }
  }

  // Starts copying the first tiles.
  __device__ __forceinline__ void start() {
#pragma unroll
    for (int i = 0; i < Layout::kStages - 1; ++i) {
      fetcher_.next(valid_[i]);
      copy_async_commit();
    }
  }

  __device__ __forceinline__ void run() {
    const int32_t tiles = (range_.end - range_.begin + Layout::kTileTokens - 1) / Layout::kTileTokens;
#pragma unroll 1
    for (int32_t tile = 0; tile < tiles; ++tile) {
      const int stage = tile % Layout::kStages;
      copy_async_wait<Layout::kStages - 2>();
      if constexpr (kSplitsHeads) {
        named_barrier(1 + group_, 32 * kSharers<kGroups>);
      } else {
        __syncwarp();
      }
      score(stage, tile & 1, range_.begin + tile * Layout::kTileTokens, valid_[0]);
#pragma unroll
      for (int i = 0; i + 2 < Layout::kStages; ++i) valid_[i] = valid_[i + 1];
      __syncthreads();
      // Every warp is done with the tile before this one: its place is free.
      fetcher_.next(valid_[Layout::kStages - 2]);
      copy_async_commit();
      accumulate(stage, tile & 1);
    }
  }

  // Puts what summary_of() needs into shared memory. All threads of the block.
  __device__ __forceinline__ void publish_sums() {
    if (!kHalves || sharer_ == 0) {
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
        float sum[2] = {softmax_.sum[n][0], softmax_.sum[n][1]};
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) {
          sum[0] += __shfl_xor_sync(~0U, sum[0], lanes);
          sum[1] += __shfl_xor_sync(~0U, sum[1], lanes);
        }
        if (g_ == 0) {
          uint8_t* place = shared_ + Layout::kSums + 8 * (group_ * kHeads + first_head_ + 8 * n + 2 * c_);
          write(place, float4{softmax_.maximum[n][0], sum[0], softmax_.maximum[n][1], sum[1]});
        }
      }
    }
    // Chunks of one kind have the same references; a BF16 chunk is the last.
    if (c_ == 0 && (chunk_ == 0 || chunk_ == kValueChunks - 1)) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        write(shared_ + Layout::kReferences + 8 * (8 * n + g_) + (chunk_ == 0 ? 0 : 4),
              rescale_.reference[n] - spread_bits_);
      }
    }
    sync_workers();
  }

  // Calls take(head, chunk, offset, values) for everything this thread has: 4 dimensions from `offset` of a chunk.
  template <typename Take>
  __device__ __forceinline__ void for_each_result(Take take) const {
    constexpr bool kHalved = Format::kChunk == Chunk::kHalvesE4m3;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float4 first = {accumulators_[0][n][k], accumulators_[0][n][2 + k], accumulators_[1][n][k],
                              accumulators_[1][n][2 + k]};
        const float4 second = {accumulators_[2][n][k], accumulators_[2][n][2 + k], accumulators_[3][n][k],
                               accumulators_[3][n][2 + k]};
        const int head = 8 * n + 2 * c_ + k;
        take(head, chunk_, kHalved ? 4 * g_ : 8 * g_, first);
        take(head, chunk_, kHalved ? 32 + 4 * g_ : 8 * g_ + 4, second);
      }
    }
  }

 private:
  // Of this warp's group.
  __device__ __forceinline__ StoredToken token(int stage, int row) const {
    const int number = kGroupTokens * group_ + token_of_row(row);
    return {shared_ + Layout::kRows + stage * Layout::kRowsBytes + number * Format::kRowStride,
            shared_ + Layout::kScales + stage * Layout::kScalesOfStage + sharer_ * Layout::kScalesBytes +
                number * Format::kStoredScales};
  }

  // Weights of this warp's group.
  __device__ __forceinline__ void score(int stage, int buffer, int32_t first, uint32_t valid) {
    float scores[kScoreTiles][4];
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = 0;
    }
    const uint8_t* query = shared_ + Layout::kQuery + (first_head_ + g_) * Layout::kQueryStride;
    const StoredToken low = token(stage, g_), high = token(stage, g_ + 8);
    if constexpr (kHalves) {
      score_half<Format, kScoreTiles, Layout::kQueryStride>(low, high, query, c_, sharer_, scores);
      uint8_t* exchange = shared_ + Layout::kScores + group_ * (Layout::kScoresBytes / kGroups) + 16 * lane_;
      if (sharer_ == 1) {
        const GroupScales<Format> scales(token(stage, lane_ >> 1), lane_);
        spread_nan(scales.nan_rows, scores);
#pragma unroll
        for (int n = 0; n < kScoreTiles; ++n) {
          write(exchange + 512 * n, float4{scores[n][0], scores[n][1], scores[n][2], scores[n][3]});
        }
        named_barrier(1 + group_, 32 * kSharers<kGroups>);
        store_scales(scales, buffer);
        return;
      }
      named_barrier(1 + group_, 32 * kSharers<kGroups>);
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
        const auto other = read<float4>(exchange + 512 * n);
        scores[n][0] += other.x;
        scores[n][1] += other.y;
        scores[n][2] += other.z;
        scores[n][3] += other.w;
      }
    } else {
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        score_half<Format, kScoreTiles, Layout::kQueryStride>(low, high, query, c_, second, scores);
      }
      const GroupScales<Format> scales(token(stage, lane_ >> 1), lane_);
      spread_nan(scales.nan_rows, scores);
      if (sharer_ == 0) store_scales(scales, buffer);
    }
    weigh(scores, buffer, first, valid);
  }

  __device__ __forceinline__ void spread_nan(uint32_t nan_rows, float (&scores)[kScoreTiles][4]) const {
    if (nan_rows == 0) return;
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((nan_rows >> (2 * (g_ + 8 * (i / 2))) & 1) != 0) scores[n][i] = NAN;
      }
    }
  }

  __device__ __forceinline__ void store_scales(const GroupScales<Format>& scales, int buffer) {
    scales.store(shared_ + Layout::kGroupScales + (buffer * kGroups + group_) * (Layout::kWeightScalesBytes / kGroups),
                 lane_);
    if (lane_ != 0) return;
    write(shared_ + Layout::kScaleMaxima + 4 * (kGroups * buffer + group_), scales.reference);
    write(shared_ + Layout::kScaleMinima + 4 * (kGroups * buffer + group_), scales.smallest);
  }

  // Scores to weights in shared memory.
  __device__ __forceinline__ void weigh(float (&scores)[kScoreTiles][4], int buffer, int32_t first, uint32_t valid) {
    const int number[2] = {token_of_row(g_), token_of_row(g_ + 8)};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool missing = (valid >> number[r] & 1) == 0;
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          bool counts = !missing;
          if constexpr (kDense<Format>) {
            const Head head = head_of<Format>(a_, place_, first_head_ + 8 * n + 2 * c_ + i);
            const int32_t visible = range_.main_count - (a_.causal ? a_.s_q - 1 - head.token : 0);
            counts &= first + kGroupTokens * group_ + number[r] < visible;
          }
          if (!counts) scores[n][2 * r + i] = -INFINITY;
        }
      }
    }
    soften<kScoreTiles>(scores, shared_ + Layout::kFactors + 8 * first_head_, c_, softmax_);
    const int to =
        ((buffer * kGroups + group_) * kHeads + first_head_ + (lane_ & 7)) * 2 * kGroupTokens + (lane_ >> 3 & 1) * 16;
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
      const int place = to + n * 8 * 2 * kGroupTokens;
      if constexpr (!kDense<Format>) {
        store_matrix_transposed(smem_address(shared_ + Layout::kWeights + place),
                                pack_f16x2(scores[n][0], scores[n][1]), pack_f16x2(scores[n][2], scores[n][3]));
      }
      if constexpr (Layout::kHasBf16Values) {
        uint32_t rounded[2], rest[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          rounded[r] = pack_bf16x2(scores[n][2 * r], scores[n][2 * r + 1]);
          rest[r] = rest_of_bf16(rounded[r], scores[n][2 * r], scores[n][2 * r + 1]);
        }
        store_matrix_transposed(smem_address(shared_ + Layout::kWeightsHigh + place), rounded[0], rounded[1]);
        store_matrix_transposed(smem_address(shared_ + Layout::kWeightsLow + place), rest[0], rest[1]);
      }
    }
    if (g_ != 0) return;
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int head = first_head_ + 8 * n + 2 * c_ + i;
        write(shared_ + Layout::kMaxima + buffer * Layout::kMaximaBytes + 4 * (kGroups * head + group_),
              softmax_.maximum[n][i]);
      }
    }
  }

  // Adds the tile's weighted values to the accumulators.
  __device__ __forceinline__ void accumulate(int stage, int buffer) {
    const bool bf16 = kDense<Format> || chunk_ == Format::kBf16Chunk;
    const uint8_t* maxima = shared_ + Layout::kMaxima + buffer * Layout::kMaximaBytes;
    const uint8_t* scale_maxima =
        bf16 || !kHasScales<Format> ? nullptr : shared_ + Layout::kScaleMaxima + 4 * kGroups * buffer;
    rescale_.update(maxima, scale_maxima, g_, c_, accumulators_);
    const auto factor = [&](int n, int k) {
      const float by = rescale_.factor_of(maxima, scale_maxima, g_, n, k);
      return bf16 ? pack_bf16x2(by, by) : pack_f16x2(by, by);
    };
    if (bf16) {
      if constexpr (Layout::kHasBf16Values) accumulate_bf16(stage, buffer, factor);
    } else if (scales_spread(buffer)) {
      if constexpr (kHasScales<Format>) {
        // The scales come with their own powers of two.
        accumulate_spread(stage, buffer, [&](int n, int k) {
          return exp2_fast(read<float>(maxima + 4 * (kGroups * (8 * n + g_) + k)) - rescale_.reference[n] +
                           spread_bits_);
        });
      }
    } else {
      if constexpr (!kDense<Format>) accumulate_f16(stage, buffer, factor);
    }
  }

  // True if the scales so far are too far apart for products with weights in F16. From then on the accumulators are
  // kept larger by 2^spread_bits_, so that products with scales 2^160 apart are normal numbers of FP32.
  __device__ __forceinline__ bool scales_spread(int buffer) {
    if constexpr (!kHasScales<Format>) return false;
    // A power of two stays exact down to 2^-24, and a weight times 2^-20 keeps its bits.
    constexpr float kMostBits = Format::kInnerScales >= 0 ? 10 : 20;
    float smallest = INFINITY;
#pragma unroll
    for (int k = 0; k < kGroups; k += 4) {
      const auto high = read<float4>(shared_ + Layout::kScaleMaxima + 4 * (kGroups * buffer + k));
      const auto low = read<float4>(shared_ + Layout::kScaleMinima + 4 * (kGroups * buffer + k));
      largest_scale_ = fmaxf(fmaxf(fmaxf(high.x, high.y), fmaxf(high.z, high.w)), largest_scale_);
      smallest = fminf(fminf(fminf(low.x, low.y), fminf(low.z, low.w)), smallest);
    }
    spread_ |= largest_scale_ - smallest > kMostBits;
    if (!spread_) return false;
    const float bits = fminf(fmaxf(largest_scale_ + 60, 0), 80);
    if (bits != spread_bits_) {
      const float by = exp2_fast(bits - spread_bits_);
      spread_bits_ = bits;
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) accumulators_[m][n][i] *= by;
        }
      }
    }
    return true;
  }

  // The scales of the token of value_row().
  __device__ __forceinline__ const uint8_t* value_scales(int stage, int k, int x) const {
    return shared_ + Layout::kScales + stage * Layout::kScalesOfStage +
           (kGroupTokens * k + 4 * x + ((c_ + 2 * x) & 3)) * Format::kStoredScales;
  }

  // Of them, that of dimensions 32 part .. of the warp's chunk.
  __device__ __forceinline__ float value_scale(int stage, int k, int x, int part) const {
    const uint8_t* scales = value_scales(stage, k, x);
    if constexpr (Format::kInnerScales >= 0) return read<float>(scales + 4 * (chunk_ / 2));
    const int index = Format::kChunk == Chunk::kHalvesE4m3 ? 2 * chunk_ + part : chunk_;
    return __uint_as_float(static_cast<uint32_t>(scales[index]) << 23);
  }

  // The same as accumulate_f16(), for scales of any range: weights times scales are summed up as BF16 and what that
  // lacks, the values (exact in BF16, too) are converted. Slow, and seldom needed.
  template <typename Factor>
  __device__ __forceinline__ void accumulate_spread(int stage, int buffer, Factor factor) {
    constexpr int kParts = Format::kChunk == Chunk::kHalvesE4m3 ? 2 : 1;
#pragma unroll 1
    for (int k = 0; k < kGroups; ++k) {
      const uint8_t* const values[4] = {value_row(stage, k, 0) + 64 * chunk_, value_row(stage, k, 1) + 64 * chunk_,
                                        value_row(stage, k, 2) + 64 * chunk_, value_row(stage, k, 3) + 64 * chunk_};
      ValueOperands a;
      if constexpr (Format::kChunk == Chunk::kScaledE4m3) value_operands_e4m3(values, g_, a);
      if constexpr (Format::kChunk == Chunk::kHalvesE4m3) value_operands_halves(values, g_, a);
      convert_to_bf16(a);
      const int place = ((buffer * kGroups + k) * kHeads + g_) * 2 * kGroupTokens + 8 * c_;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const auto weights = read<uint2>(shared_ + Layout::kWeights + place + n * 8 * 2 * kGroupTokens);
        const float by = factor(n, k);
        const float weight[4] = {low_f16(weights.x), high_f16(weights.x), low_f16(weights.y), high_f16(weights.y)};
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          float product[4];
#pragma unroll
          for (int x = 0; x < 4; ++x) product[x] = weight[x] * (value_scale(stage, k, x, p) * by);
          const auto b = Bf16Weights::of(product);
#pragma unroll
          for (int m = 4 / kParts * p; m < 4 / kParts * (p + 1); ++m) b.add_product(a[m], accumulators_[m][n]);
        }
      }
    }
  }

  __device__ __forceinline__ const uint8_t* value_row(int stage, int k, int x) const {
    return shared_ + Layout::kRows + stage * Layout::kRowsBytes +
           (kGroupTokens * k + 4 * x + ((c_ + 2 * x) & 3)) * Format::kRowStride;
  }

  template <typename Factor>
  __device__ __forceinline__ void accumulate_bf16(int stage, int buffer, Factor factor) {
    const int offset = kDense<Format> ? 128 * chunk_ : Format::kBf16Offset;
#pragma unroll
    for (int k = 0; k < kGroups; ++k) {
      const uint8_t* const values[4] = {value_row(stage, k, 0) + offset, value_row(stage, k, 1) + offset,
                                        value_row(stage, k, 2) + offset, value_row(stage, k, 3) + offset};
      ValueOperands a;
      value_operands_bf16(values, g_, a);
      const int place = ((buffer * kGroups + k) * kHeads + g_) * 2 * kGroupTokens + 8 * c_;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        Bf16Weights b = {read<uint2>(shared_ + Layout::kWeightsHigh + place + n * 8 * 2 * kGroupTokens),
                         read<uint2>(shared_ + Layout::kWeightsLow + place + n * 8 * 2 * kGroupTokens)};
        b.multiply(factor(n, k));
        b.add_products(a, n, accumulators_);
      }
    }
  }

  template <typename Factor>
  __device__ __forceinline__ void accumulate_f16(int stage, int buffer, Factor factor) {
    constexpr int kBytes = Format::kChunk == Chunk::kScaledE2m1 ? 32 : 64;
    constexpr int kParts = Format::kChunk == Chunk::kHalvesE4m3 ? 2 : 1;
    const int offset = kBytes * chunk_;
#pragma unroll
    for (int k = 0; k < kGroups; ++k) {
      const uint8_t* const values[4] = {value_row(stage, k, 0) + offset, value_row(stage, k, 1) + offset,
                                        value_row(stage, k, 2) + offset, value_row(stage, k, 3) + offset};
      ValueOperands a;
      if constexpr (Format::kChunk == Chunk::kScaledE4m3) value_operands_e4m3(values, g_, a);
      if constexpr (Format::kChunk == Chunk::kHalvesE4m3) value_operands_halves(values, g_, a);
      if constexpr (Format::kChunk == Chunk::kScaledE2m1) {
        uint8_t scale[4];
#pragma unroll
        for (int x = 0; x < 4; ++x) scale[x] = value_scales(stage, k, x)[4 * chunk_ + (g_ >> 1)];
        value_operands_e2m1(values, g_, scale, a);
      }
      uint2 scale[kParts];
      if constexpr (kHasScales<Format>) {
        const uint8_t* scales = shared_ + Layout::kGroupScales + buffer * Layout::kWeightScalesBytes +
                                k * (Layout::kWeightScalesBytes / kGroups) + kParts * chunk_ * 2 * kGroupTokens;
#pragma unroll
        for (int p = 0; p < kParts; ++p) scale[p] = read<uint2>(scales + p * 2 * kGroupTokens + 8 * c_);
      }
      const int place = ((buffer * kGroups + k) * kHeads + g_) * 2 * kGroupTokens + 8 * c_;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        auto weights = read<uint2>(shared_ + Layout::kWeights + place + n * 8 * 2 * kGroupTokens);
        const uint32_t by = factor(n, k);
        weights = {multiply_f16x2(weights.x, by), multiply_f16x2(weights.y, by)};
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          uint2 b = weights;
          if constexpr (kHasScales<Format>) {
            b = {multiply_f16x2(weights.x, scale[p].x), multiply_f16x2(weights.y, scale[p].y)};
          }
#pragma unroll
          for (int m = 4 / kParts * p; m < 4 / kParts * (p + 1); ++m) mma_f16(accumulators_[m][n], a[m], b.x, b.y);
        }
      }
    }
  }

  const DecodeArguments& a_;
  const Place& place_;
  const TokenRange& range_;
  uint8_t* shared_;
  Fetcher<Format, kHeads, kGroups> fetcher_;
  uint32_t valid_[Layout::kStages - 1] = {};  // tokens of the tiles that are being copied
  const int lane_, g_, c_;
  const int group_, sharer_, first_head_;  // in QK^T
  const int chunk_;                        // in PV
  SoftmaxState<kScoreTiles> softmax_;
  Rescale<kTiles, kGroups> rescale_;
  // Scales so far, for scales_spread(), as exponents of powers of two.
  float largest_scale_ = kNoMaximum;
  float spread_bits_ = 0;
  bool spread_ = false;
  Accumulators<kTiles> accumulators_;
};

}  // namespace flashmla::cuda
