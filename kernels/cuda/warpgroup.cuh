// What a computing warp of the warpgroup kernel does. The products are those of Worker (decode.cuh), issued as wgmma:
// the tokens, then the value dimensions, are on the M side and come from registers, converted there; the heads are on
// N. All values of a chunk refer to one power of two, its units.
#pragma once

#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/warpgroup_copy.cuh"
#include "kernels/cuda/warpgroup_softmax.cuh"

namespace flashmla::cuda {

// Scales of a chunk over its units lie at most at 2^kScaleBits: E4M3 values times scales then fit F16, and are exact
// down to scales of 2^-15 of that (E4M3 goes down to 2^-9, F16 to 2^-24).
constexpr float kScaleBits = 6;

template <typename SharedLayout>
class WarpgroupWorker {
 public:
  using Layout = SharedLayout;
  using Format = typename Layout::Format;
  static constexpr int kTiles = Layout::kHeads / 8;
  // Four chunks of value dimensions are a set: 0 to 3 and 4 to 7. A warpgroup has both, or one of them.
  static constexpr int kSets = 8 / Layout::kTeamWarps;

  __device__ __forceinline__ explicit WarpgroupWorker(uint8_t* shared) : shared_(shared) { take_place(); }

  __device__ __forceinline__ int warp() const { return warp_; }
  __device__ __forceinline__ int lane() const { return lane_; }

  // Before the barrier behind which the row's queries are there.
  __device__ __forceinline__ void reset() {
    softmax_.reset();
    if (rank_ == 0) {
      for (int h = lane_; h < Layout::kHeads; h += 32) {
        write(shared_ + Layout::kReference + 4 * (team_ * Layout::kHeads + h), kNoMaximum);
      }
      if (lane_ < kValueChunks) write(shared_ + Layout::kUnits + 4 * (team_ * kValueChunks + lane_), kNoUnits);
    }
    if (lane_ < 8) write(shared_ + Layout::kOwnUnits + 4 * (8 * warp_ + lane_), static_cast<float>(kNoUnits));
    if (lane_ == 0) write(shared_ + Layout::kSpread + 4 * warp_, 0U);
  }

  // The row's groups, behind that barrier.
  __device__ __forceinline__ void run() {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int i = 0; i < 4 * kTiles; ++i) accumulators_[set][m][i] = 0;
      }
    }
    bool spread = false;  // scales are too far apart for F16
    int table = 0;        // of scales; slower warps may still need the other one
#pragma unroll 1
    for (int first = tile_word(2) + team_ * Layout::kGroups; first < end(); first += Layout::kTeams * Layout::kGroups) {
      const int here = min(end() - first, Layout::kGroups);
      const int own = first + rank_;
      uint32_t valid = 0;
      if (rank_ < here) {
        wait_for(own);
        valid = read<uint32_t>(shared_ + Layout::kValid + 4 * slot_of(own));
      }
      // A warp without a group multiplies what lies there; nobody looks at its scores.
      float scores[4 * kTiles];
      score(slot_of(own), scores);
      take_lane();
      const bool fit = convert_own_scales(slot_of(own), rank_ < here, table);
      const bool changed = softmax_.start(
          scores, valid, !fit,
          [&] {
            if (valid != 0) spread_nan(slot_of(own), scores);
            prepare_scales(first, here, table);
          },
          [&](int n, const float2& by) {
#pragma unroll
            for (int set = 0; set < kSets; ++set) {
#pragma unroll
              for (int m = 0; m < 4; ++m) {
                accumulators_[set][m][4 * n] *= by.x, accumulators_[set][m][4 * n + 1] *= by.y;
                accumulators_[set][m][4 * n + 2] *= by.x, accumulators_[set][m][4 * n + 3] *= by.y;
              }
            }
          });
      softmax_.finish(scores);
      if (changed) spread = __shfl_sync(~0U, static_cast<int>(adopt_units()), 0) != 0;
      if (!kMixedSet || kSets == 2 || first_set() == 0) {
        accumulate<false>(first, here, scores, spread, table);
      } else {
        accumulate<true>(first, here, scores, spread, table);
      }
      table = Layout::kScaleTable - table;
    }
  }

  // What is left to do behind the row's last tile (warpgroup_finish.cuh). `meanwhile`: while others' results come.
  template <typename Meanwhile>
  __device__ __forceinline__ void finish(const DecodeArguments& a, Meanwhile meanwhile);

  static constexpr float kResultBits = 20;

 private:
  // Anew for each row and for its end: what follows from these would be computed once, and take registers while tokens
  // are worked on.
  __device__ __forceinline__ void take_place() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    warp_ = __shfl_sync(~0U, thread / 32, 0);
    team_ = warp_ / Layout::kTeamWarps, rank_ = warp_ % Layout::kTeamWarps;
    take_lane();
  }
  __device__ __forceinline__ void take_lane() {
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane_));
    g_ = lane_ >> 2, c_ = lane_ & 3;
    softmax_.take_place(shared_, warp_, lane_);
  }

  // A number that is read each time: what the compiler could compute from it before the loop over tiles, the
  // descriptors of all instructions, would take more registers than there are.
  __device__ __forceinline__ uint32_t tile_word(int i) const {
    return *reinterpret_cast<const volatile uint32_t*>(shared_ + Layout::kTileWords + 4 * i);
  }
  __device__ __forceinline__ int end() const {
    return __shfl_sync(~0U, static_cast<int>(tile_word(3)), 0);
  }

  // A set with a BF16 chunk is mixed: an instruction has 16 dimensions a warp of one of its chunks, instead of 16 of
  // each warp's own chunk.
  static constexpr bool kMixedSet = Layout::kHasBf16Values;
  static_assert(!kMixedSet || Format::kBf16Chunk >= 4);

  // The first set of this warp: 0 or 1.
  __device__ __forceinline__ int first_set() const {
    return kSets == 2 ? 0 : warp_ / 4;
  }
  __device__ __forceinline__ bool is_mixed(int set) const {
    return kMixedSet && first_set() + set == 1;
  }
  // The same, known when this is compiled: a warp of the second set.
  template <bool kSecond>
  __device__ static constexpr bool known_mixed(int set) {
    return kMixedSet && (kSets == 2 ? set == 1 : kSecond);
  }
  // Which chunk of a set instruction m, or this warp, has.
  __device__ __forceinline__ int chunk_of(int set, int m) const {
    return 4 * (first_set() + set) + (is_mixed(set) ? m : warp_ % 4);
  }

  // --- the end of a row (warpgroup_finish.cuh) -----------------------------------------------------------------------

  // A part is a head's results in one set: the thread's values of column k of tile n of heads. The teams share them.
  static constexpr int kParts = kSets * 2 * kTiles;

  // Sum and reference of head `head` over the teams. Puts what each team's values are multiplied with into kShares.
  __device__ __forceinline__ void summarise(const DecodeArguments& a, int head) const;
  // Values in units of 2^-kResultBits of weights, times the shares.
  __device__ __forceinline__ void apply_shares();
  // Adds up the teams' values; part p is then complete in team p % kTeams.
  __device__ __forceinline__ void add_up_teams();
  // The thread's values 4 half .. of part p.
  __device__ __forceinline__ float4 values(int p, int half) const;
  // Calls store(head, dimension, pairs...) for the complete parts: one pair of values, or the four of 8 dimensions.
  template <typename Store>
  __device__ __forceinline__ void for_each_part(Store store) const;

  __device__ __forceinline__ float exponent_of_results(int set, int m) const {
    if (is_mixed(set) && 4 + m == Format::kBf16Chunk) return -kResultBits;
    return read<float>(own_units(set, m)) - kScaleBits - kResultBits;
  }

  static __device__ __forceinline__ int slot_of(int group) {
    return Layout::ring().slot(group);
  }

  __device__ __forceinline__ void wait_for(int group) const {
    barrier_wait(smem_address(shared_ + Layout::kFilled + 8 * slot_of(group)), Layout::ring().round(group) & 1);
  }

  __device__ __forceinline__ const uint8_t* scales_of_slot(int slot) const {
    return shared_ + Layout::kScales + slot * Layout::kSlotScales;
  }

  // --- QK^T (warpgroup_score.cuh) ------------------------------------------------------------------------------------

  // Two chunks are under way at a time where there are registers for them.
  static constexpr bool kTwoAtATime = kTiles <= 2;
  static constexpr int kLast = Format::kScoreChunks - 1;
  using Scores = float[4 * kTiles];
  // Heads of one instruction: all, or halves one after another where registers are short.
  static constexpr int kTilesAtATime = kTiles <= 4 ? kTiles : 4;
  using Sums = float[4 * kTilesAtATime];

  __device__ __forceinline__ void score(int slot, Scores& scores) const;
  __device__ __forceinline__ void score_chunk(uint32_t query, int chunk, const uint8_t* low, const uint8_t* scales,
                                              Scores& scores) const;
  // `low`: of the token of operand row g, from byte 16c.
  __device__ __forceinline__ void score_operands(int chunk, const uint8_t* low, ScoreOperands& a) const;
  __device__ __forceinline__ static void issue_scores(uint32_t queries, int chunk, ScoreOperands& a, Sums& sum);
  // Tensor cores cut off what is small beside the sum so far: chunks are summed apart and added exactly rounded.
  __device__ __forceinline__ static void add_scores(int chunk, int tile, const uint8_t* scales, Sums& sum,
                                                    Scores& scores);
  __device__ __forceinline__ static float score_scale(const uint8_t* scales, int chunk);
  // A score with a scale that is no number is none either.
  __device__ __forceinline__ void spread_nan(int slot, float (&scores)[4 * kTiles]) const;

  // --- scales of the values (warpgroup_scales.cuh)
  // --------------------------------------------------------------------

  // The scales of the own group's tokens over the units so far as F16 into shared memory, zeros if the group does not
  // exist. False if any is too large or too small for that: prepare_scales() is then needed. Lane q has operand row
  // q % 16 and half of the chunks.
  __device__ __forceinline__ bool convert_own_scales(int slot, bool exists, int table) const;

  // The same for the scales of this warp's chunks, of all groups, over units that suit them, and whether any so far
  // were too far apart for F16. The lanes share the tile's groups and its chunks: each has the four tokens of thread c
  // of a group.
  __device__ __forceinline__ void prepare_scales(int first, int here, int table);

  // Bits of a scale below the units: the mantissa of an FP32 scale may double its power.
  static constexpr int32_t kLeastBits = Format::kInnerScales >= 0 ? 1 : 0;
  static constexpr int32_t kMostBits = Format::kInnerScales >= 0 ? 10 : 15;

  // Of thread c's four tokens.
  __device__ __forceinline__ uint8_t* value_scales(int chunk, int group, int table) const {
    return shared_ + Layout::kValueScales + table +
           (chunk * Layout::kWorkWarps + team_ * Layout::kTeamWarps + group) * Layout::kScaleRow + 8 * c_;
  }

  // Of thread c's token x.
  __device__ __forceinline__ float scale_of(const uint8_t* scales, int x, int chunk) const {
    const uint8_t* of_token = scales + token_of_row(4 * c_ + x) * Format::kStoredScales;
    if constexpr (Format::kInnerScales >= 0) return read<float>(of_token + 4 * (chunk / 2));
    return __uint_as_float(static_cast<uint32_t>(of_token[chunk]) << 23);
  }

  // --- PV ------------------------------------------------------------------------------------------------------------

  // With scales further apart than F16 allows, accumulators are kept larger by 2^kSpreadBits, so that products with
  // scales 2^160 apart are normal numbers of FP32.
  static constexpr float kSpreadBits = 80;

  // The units of the tile's scales become those of the accumulators. True if the team needs accumulate_spread().
  __device__ __forceinline__ bool adopt_units() {
    uint32_t spread = 0;
#pragma unroll
    for (int k = 0; k < Layout::kTeamWarps; k += 4) {
      const auto four = read<uint4>(shared_ + Layout::kSpread + 4 * (team_ * Layout::kTeamWarps + k));
      spread |= four.x | four.y | four.z | four.w;
    }
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      if (is_mixed(set)) {
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          if (4 + m == Format::kBf16Chunk) continue;
          const float by = adopt(4 + m, spread != 0, own_units(set, m));
          if (by != 1) rescale(accumulators_[set][m], by);
        }
      } else {
        const float by = adopt(chunk_of(set, 0), spread != 0, own_units(set, 0));
        if (by == 1) continue;
#pragma unroll
        for (int m = 0; m < 4; ++m) rescale(accumulators_[set][m], by);
      }
    }
    return spread != 0;
  }

  // `own`: the units of this warp's accumulators.
  __device__ __forceinline__ float adopt(int chunk, bool spread, uint8_t* own) const {
    const auto units = read<int32_t>(shared_ + Layout::kUnits + 4 * (team_ * kValueChunks + chunk));
    const float now = static_cast<float>(units) - (spread ? kSpreadBits : 0);
    const float by = exp2_fast(read<float>(own) - now);
    __syncwarp();
    if (lane_ == 0) write(own, now);
    return by;
  }

  // Where this warp keeps the units of the accumulators of instruction m of a set, as the exponent of a power of two.
  __device__ __forceinline__ uint8_t* own_units(int set, int m) const {
    return shared_ + Layout::kOwnUnits + 4 * (8 * warp_ + 4 * set + (is_mixed(set) ? m : 0));
  }

  __device__ __forceinline__ static void rescale(float (&accumulators)[4 * kTiles], float by) {
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) accumulators[i] *= by;
  }

  __device__ __forceinline__ void release(int slot) const {
    __syncwarp();
    if (lane_ == 0) barrier_arrive(smem_address(shared_ + Layout::kFree + 8 * slot));
  }

  template <bool kSecond>
  __device__ __forceinline__ void accumulate(int first, int here, const float (&scores)[4 * kTiles], bool spread,
                                             int table) {
    pin_accumulators();
    if (spread) {
      accumulate_spread<kSecond>(first, here, scores);
      return;
    }
    const uint32_t weights = tile_word(1) + (team_ * Layout::kHalfBytes >> 4);
    const int first_slot = slot_of(first);
    // Operands are converted while those before are multiplied, where there are registers for both.
    constexpr int kOperands = 2;
    ValueOperands a[kOperands];
#pragma unroll
    for (int k = 0; k < Layout::kGroups; ++k) {
      // Behind the last group its values come again, for weights of 0.
      const int behind = first_slot + min(k, here - 1);
      const int slot = behind < Layout::kSlots ? behind : behind - Layout::kSlots;
      const uint8_t* rows = shared_ + Layout::kRows + slot * Layout::kSlotBytes;
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        ValueOperands& operands = a[(kSets * k + set) % kOperands];
        if (kSets * k + set >= kOperands) wgmma_wait<kOperands - 1>();
        if (known_mixed<kSecond>(set)) {
          value_operands<true>(rows, set, operands);
          scale_operands<true>(k, set, table, operands);
        } else {
          value_operands<false>(rows, set, operands);
          scale_operands<false>(k, set, table, operands);
        }
        issue_values<kSecond>(weights + (k / 4 * Layout::kHalfBytes >> 4) + k % 4 * 2, set, operands);
      }
      if (k + 1 < here) release(slot);
    }
    release(slot_of(first + here - 1));
    wgmma_wait<0>();
    pin_accumulators();
  }

  __device__ __forceinline__ void pin_accumulators() {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int m = 0; m < 4; ++m) pin(accumulators_[set][m]);
    }
  }

  template <bool kSecond>
  __device__ __forceinline__ void issue_values(uint32_t weights, int set, ValueOperands& a) {
    constexpr uint32_t kToBf16 = (Layout::kWeightsBf16 - Layout::kWeights) >> 4;
    constexpr uint32_t kToLow = (Layout::kWeightsLow - Layout::kWeights) >> 4;
    pin(a);
    wgmma_fence();
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      if (known_mixed<kSecond>(set) && 4 + m == Format::kBf16Chunk) {
        wgmma_bf16(accumulators_[set][m], a[m], weights + kToLow);
        wgmma_bf16(accumulators_[set][m], a[m], weights + kToBf16);
      } else {
        wgmma_f16(accumulators_[set][m], a[m], weights);
      }
    }
    wgmma_commit();
  }

  // A operands of the four instructions of a set for one group, not yet scaled.
  template <bool kMixed>
  __device__ __forceinline__ void value_operands(const uint8_t* rows, int set, ValueOperands& a) const {
    // Of tokens x = 0 and 1; those of 2 and 3 are 8 behind.
    const uint8_t* first = rows + c_ * Format::kRowStride;
    const uint8_t* second = rows + (4 + ((c_ + 2) & 3)) * Format::kRowStride;
    constexpr int kEight = 8 * Format::kRowStride;
    if constexpr (kMixed) {
      const int place = 16 * (warp_ % 4) + 2 * g_;
      first += place, second += place;
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        if (4 + m == Format::kBf16Chunk) {
          const int offset = Format::kBf16Offset + place;
          const uint32_t w[4] = {read<uint32_t>(first + offset), read<uint32_t>(second + offset),
                                 read<uint32_t>(first + offset + kEight), read<uint32_t>(second + offset + kEight)};
          a[m][0] = __byte_perm(w[0], w[1], 0x5410);
          a[m][1] = __byte_perm(w[0], w[1], 0x7632);
          a[m][2] = __byte_perm(w[2], w[3], 0x5410);
          a[m][3] = __byte_perm(w[2], w[3], 0x7632);
        } else {
          const int offset = kChunkDims * (4 + m);
          const uint32_t w[4] = {read<uint16_t>(first + offset), read<uint16_t>(second + offset),
                                 read<uint16_t>(first + offset + kEight), read<uint16_t>(second + offset + kEight)};
          const uint32_t low = __byte_perm(w[0], w[1], kInterleaveLow), high = __byte_perm(w[2], w[3], kInterleaveLow);
          a[m][0] = e4m3x2_to_f16x2(low);
          a[m][1] = e4m3x2_high_to_f16x2(low);
          a[m][2] = e4m3x2_to_f16x2(high);
          a[m][3] = e4m3x2_high_to_f16x2(high);
        }
      }
    } else {
      const int offset = kChunkDims * chunk_of(set, 0);
      const uint8_t* const values[4] = {first + offset, second + offset, first + offset + kEight,
                                        second + offset + kEight};
      value_operands_e4m3(values, g_, a);
    }
  }

  template <bool kMixed>
  __device__ __forceinline__ void scale_operands(int k, int set, int table, ValueOperands& a) const {
    uint2 scale = {0, 0};
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      if (kMixed && 4 + m == Format::kBf16Chunk) continue;
      if (kMixed || m == 0) scale = read<uint2>(value_scales(kMixed ? 4 + m : chunk_of(set, 0), k, table));
      a[m][0] = multiply_f16x2(a[m][0], scale.x);
      a[m][1] = multiply_f16x2(a[m][1], scale.x);
      a[m][2] = multiply_f16x2(a[m][2], scale.y);
      a[m][3] = multiply_f16x2(a[m][3], scale.y);
    }
  }

  // --- scales far apart (warpgroup_spread.cuh) -----------------------------------------------------------------------

  // The tile with weights in BF16, and then with what that lacks, and values in BF16. `weights`: of this warp.
  template <bool kSecond>
  __device__ __forceinline__ void accumulate_spread(int first, int here, const float (&weights)[4 * kTiles]);
  __device__ __forceinline__ void issue_spread(int k, int set, ValueOperands& a);
  // Values times scales in BF16, or what that lacks.
  template <bool kMixed>
  __device__ __forceinline__ void spread_operands(int slot, int set, bool rest, ValueOperands& a) const;

  uint8_t* shared_;
  int warp_, team_, rank_;
  int lane_, g_, c_;
  WarpgroupSoftmax<Layout> softmax_;
  float accumulators_[kSets][4][4 * kTiles];
};

}  // namespace flashmla::cuda

#include "kernels/cuda/warpgroup_finish.cuh"
#include "kernels/cuda/warpgroup_scales.cuh"
#include "kernels/cuda/warpgroup_score.cuh"
#include "kernels/cuda/warpgroup_spread.cuh"
