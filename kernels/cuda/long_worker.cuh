// What a computing warp of the kernel for many tokens does with a tile.
#pragma once

#include "kernels/cuda/long_scales.cuh"
#include "kernels/cuda/short_merge.cuh"

namespace flashmla::cuda {

// All weights of a tile refer to one maximum of each head, and all values of a chunk to one power of two, its units. A
// tile that changes either is seldom: then the warps tell each other at the barrier between the two products.
template <typename SharedLayout>
class LongWorker {
 public:
  using Layout = SharedLayout;
  using Format = typename Layout::Format;
  static constexpr int kTiles = Layout::kHeads / 8;

  __device__ __forceinline__ LongWorker(uint8_t* shared, int warp, int lane)
      : shared_(shared),
        team_(Layout::kTeams == 1 ? 0 : warp / kWarps),
        warp_(warp - kWarps * team_),
        lane_(lane),
        g_(lane >> 2),
        c_(lane & 3),
        group_(warp % 4),
        half_(warp_ / 4) {
    const int token[2] = {kGroupTokens * group_ + token_of_row(g_), kGroupTokens * group_ + token_of_row(g_ + 8)};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      score_row_[r] = keep(Layout::kRows + token[r] * Format::kRowStride + 256 * half_ + 16 * c_);
      score_scales_[r] = Layout::kScalesInRows ? 0 : keep(Layout::kScales + token[r] * Format::kScaleBytes + 4 * half_);
    }
    query_ = keep(Layout::kQuery + g_ * Layout::kQueryStride + 512 * half_ + 32 * c_);
    exchange_ = keep(256 * kTiles * warp + 8 * lane_);
    weights_to_ = keep(Layout::kWeights +
                       2 * ((group_ * Layout::kHeads + (lane_ & (Layout::kHeads - 1))) * kGroupTokens + 8 * half_));
    if constexpr (kKeepsRows) {
      const bool bf16 = warp_ == Format::kBf16Chunk;
      value_row_[0] = keep(bf16 ? row_of_value<true>(0) : row_of_value<false>(0));
      value_row_[1] = keep(bf16 ? row_of_value<true>(1) : row_of_value<false>(1));
    }
  }

  // Before the barrier behind which the row's queries are there.
  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      sum_[n] = 0;
      if (warp_ == 0 && g_ == 0) write(common(n), float2{kNoMaximum, kNoMaximum});
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) results_[m][n][i] = 0;
      }
    }
    scales().reset();
  }

  // The row's groups, from the block's tile `tile` on, behind that barrier; the teams take tiles in turn. One team
  // alone calls scored() when nobody needs queries any more.
  template <typename Scored>
  __device__ __forceinline__ void run(uint32_t tile, int groups, Scored scored) {
    groups = max(groups - team() * Layout::kGroups, 0);
    if (Layout::kTeams == 1 && groups == 0) scored();
    // Groups that are left, and the tile: one register.
    uint32_t state = kRounds * groups + (tile + team()) % kRounds;
#pragma unroll 1
    while (state >= kRounds) {
      const uint32_t number = state % Layout::kStages;
      uint8_t* const stage = shared_ + number * Layout::kStageBytes;
      barrier_wait(smem_address(shared_ + Layout::kFilled + 8 * number), state / Layout::kStages % 2);
      if constexpr (kForgets) take_place();
      uint32_t news = kNone;
      if (group_ < left(state)) news = weigh(stage);
      const bool changes = named_barrier_or(team_barrier(), kThreads, news != kNone);
      if (Layout::kTeams == 1 && left(state) <= Layout::kGroups) scored();
      take_place();
      const int here = min(left(state), Layout::kGroups);
      bool even = true;
      if (changes) even = adopt(stage, here, (news & kGrows) != 0);
      if (even && !scales().are_spread() && here == Layout::kGroups) {
        accumulate(stage);
      } else {
        accumulate_any(stage, here, even);
      }
      __syncwarp();
      if (lane_ == 0) barrier_arrive(smem_address(shared_ + Layout::kFree + 8 * (state % Layout::kStages)));
      constexpr int kStep = Layout::kTeams * Layout::kGroups;
      state = kRounds * max(left(state) - kStep, 0) + (state + Layout::kTeams) % kRounds;
    }
  }

  // Puts the warp's sums into shared memory, beside the references.
  __device__ __forceinline__ void publish_sums() const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float sum = sum_[n];
#pragma unroll
      for (int lanes = 8; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(~0U, sum, lanes);
      const int place = (team() * kWarps + warp_) * Layout::kHeads + 8 * n + 2 * c_ + g_;
      if (g_ < 2) write(shared_ + Layout::kWarpSums + 4 * place, sum);
    }
  }

  // Brings the results to units of 2^-kShortResultBits of weights, and those of the teams together in the first team.
  // All work warps, behind the barrier behind which kCommon has what the teams' results are to be multiplied with.
  __device__ __forceinline__ void settle() {
    const float by = small_power_of_two(scales().exponent() - kShortResultBits);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float2 share = {by, by};
      if constexpr (Layout::kTeams > 1) {
        const auto of_team = read<float2>(common(n));
        share = {by * of_team.x, by * of_team.y};
      }
      rescale(n, share);
    }
    if constexpr (Layout::kTeams > 1) {
      uint8_t* const together = shared_ + Layout::kTogether + 16 * (warp_ * 4 * 32 + lane_);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        if (n > 0) sync_teams<Layout>();
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          const float(&v)[4] = results_[m][n];
          if (team() > 0) write(together + 512 * m, float4{v[0], v[1], v[2], v[3]});
        }
        sync_teams<Layout>();
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          if (team() > 0) continue;
          const auto more = read<float4>(together + 512 * m);
          float(&v)[4] = results_[m][n];
          v[0] += more.x, v[1] += more.y, v[2] += more.z, v[3] += more.w;
        }
      }
    }
  }

  // [dimensions 8g + 2m, 8g + 2m + 1 of the warp's chunk][heads 8n + 2c, 8n + 2c + 1 of both], settled.
  using Results = float[4][kTiles][4];
  __device__ __forceinline__ const Results& results() const {
    return results_;
  }

 private:
  __device__ __forceinline__ int team() const {
    return Layout::kTeams == 1 ? 0 : team_;
  }

  static constexpr uint32_t kRounds = 2 * Layout::kStages;  // barriers tell the parity of a round
  static __device__ __forceinline__ int left(uint32_t state) {
    return static_cast<int>(state / kRounds);
  }

  // As registers allow: 96 of a thread, with two teams 104.
  static constexpr bool kScarce = kTiles == 2;
  static constexpr bool kForgets = kScarce && Layout::kHasBf16Values;
  static constexpr bool kKeepsRows = !kScarce;
  static constexpr int kUnrolledChunks = kTiles == 1 ? 2 : 1;
  static constexpr int kUnrolledGroups = kForgets ? 1 : Layout::kGroups;

  // Anew for each product, instead of keeping what follows from it during the other one.
  __device__ __forceinline__ void take_place() {
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane_));
    g_ = lane_ >> 2, c_ = lane_ & 3;
    if constexpr (!kForgets) return;
    warp_ = __shfl_sync(~0U, warp_, 0);
    group_ = warp_ % 4, half_ = warp_ / 4;
  }

  // A number that the compiler keeps instead of working it out again.
  static __device__ __forceinline__ int keep(int number) {
    asm volatile("" : "+r"(number));
    return number;
  }

  // What is the team's in shared memory.
  __device__ __forceinline__ uint8_t* of_team() const {
    return shared_ + Layout::kTeam + team() * Layout::kTeamBytes;
  }
  __device__ __forceinline__ LongScales<Layout> scales() const {
    return {of_team(), warp_, lane_};
  }
  // Barrier 0 is that of all, the next ones those of pairs of warps.
  __device__ __forceinline__ uint32_t team_barrier() const {
    return Layout::kTeams == 1 ? 0 : 1 + 4 * Layout::kTeams + team();
  }

  // FP32 of heads 8n + 2c and the next: what results refer to, as exponents of powers of two.
  __device__ __forceinline__ uint8_t* common(int n) const {
    return of_team() + Layout::kCommon + 4 * (8 * n + 2 * c_);
  }
  // What a warp's weights of the stage refer to, if any warp's are larger.
  __device__ __forceinline__ uint8_t* maxima(uint8_t* stage, int warp, int n) const {
    return stage + Layout::kMaxima + 4 * (warp * Layout::kHeads + 8 * n + 2 * c_);
  }

  // --- QK^T and softmax ----------------------------------------------------------------------------------------------

  enum News : uint32_t { kNone = 0, kGrows = 1, kUnfit = 2 };

  // Weights and scales of this warp's half of its group. kGrows: weights do not refer to the maxima so far. kUnfit:
  // scales do not fit their units.
  __device__ __forceinline__ uint32_t weigh(uint8_t* stage) {
    float part[kTiles][4];
    score(stage, part);
    const bool fits = scales().convert(stage, group_, half_);
    if (!fits) spread_nan(stage, part);
    float2 scores[kTiles];
    exchange(part, scores);
    const auto valid = read<uint16_t>(stage + Layout::kValid + 2 * group_);
    if (valid != 0xffffU && (valid >> token_of_row(g_ + 8 * half_) & 1) == 0) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) scores[n] = {-INFINITY, -INFINITY};
    }
    const bool grows = soften(scores, stage);
    store_weights(scores, stage);
    return (grows ? kGrows : kNone) | (fits ? kNone : kUnfit);
  }

  // FP32 scores of this warp's chunks, for operand rows g and g + 8; not yet scaled by softmax_scale.
  __device__ __forceinline__ void score(const uint8_t* stage, float (&part)[kTiles][4]) const {
    const ScoreScales<Format> scales_low = score_scales(stage, 0), scales_high = score_scales(stage, 1);
    const uint8_t* query = shared_ + query_;
    const uint8_t *low = stage + score_row_[0], *high = stage + score_row_[1];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) part[n][0] = part[n][1] = part[n][2] = part[n][3] = 0;
#pragma unroll kUnrolledChunks
    for (int j = 0; j < 4; ++j) {
      if (Layout::kHasBf16Values && j == 3 && half_ == 1) break;
      const auto l = read<uint4>(low + kChunkDims * j), h = read<uint4>(high + kChunkDims * j);
      float sum[kTiles][4] = {};
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const uint32_t pairs[2][2] = {{u == 0 ? l.x : l.z, u == 0 ? h.x : h.z},
                                      {u == 0 ? l.y : l.w, u == 0 ? h.y : h.w}};
        uint32_t a[2][4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          a[i][0] = e4m3x2_to_f16x2(pairs[i][0]), a[i][1] = e4m3x2_to_f16x2(pairs[i][1]);
          a[i][2] = e4m3x2_high_to_f16x2(pairs[i][0]), a[i][3] = e4m3x2_high_to_f16x2(pairs[i][1]);
        }
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          const auto q = read<uint4>(query + 8 * n * Layout::kQueryStride + 128 * j + 16 * u);
          mma_f16(sum[n], a[0], q.x, q.y);
          mma_f16(sum[n], a[1], q.z, q.w);
        }
      }
      const float by[2] = {scales_low(j, 0), scales_high(j, 0)};
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) part[n][i] = fmaf(sum[n][i], by[i / 2], part[n][i]);
      }
    }
    // From the place of chunk 4: the second half's.
    constexpr int kBf16 = Format::kBf16Offset - 256;
    if (half_ == 1) score_bf16(low + kBf16 + 16 * c_, high + kBf16 + 16 * c_, query - 512, part);
  }

  __device__ __forceinline__ ScoreScales<Format> score_scales(const uint8_t* stage, int r) const {
    if constexpr (Layout::kScalesInRows) {
      return {stage + score_row_[r] - 256 * half_ - 16 * c_ + Format::kInnerScales, half_};
    } else {
      return {stage + score_scales_[r], 0};
    }
  }

  __device__ __forceinline__ void score_bf16(const uint8_t* low, const uint8_t* high, const uint8_t* query,
                                             float (&part)[kTiles][4]) const {
    query += 128 * Format::kBf16Chunk;
    float sum[kTiles][4] = {};
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const auto l = read<uint4>(low + 16 * u), h = read<uint4>(high + 16 * u);
      const uint32_t a[2][4] = {{l.x, h.x, l.y, h.y}, {l.z, h.z, l.w, h.w}};
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const auto q = read<uint4>(query + 8 * n * Layout::kQueryStride + 16 * u);
        mma_bf16(sum[n], a[0], q.x, q.y);
        mma_bf16(sum[n], a[1], q.z, q.w);
      }
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) part[n][i] += sum[n][i];
    }
  }

  // The other warp of the group has the other chunks of the same tokens. Each takes half of the tokens: row g + 8 half.
  __device__ __forceinline__ void exchange(const float (&part)[kTiles][4], float2 (&scores)[kTiles]) const {
    uint8_t* const box = shared_ + Layout::kExchange + exchange_;
    const uint8_t* const other_box = shared_ + Layout::kExchange + (exchange_ ^ kOther);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const bool upper = half_ != 0;
      write(box + 256 * n, float2{upper ? part[n][0] : part[n][2], upper ? part[n][1] : part[n][3]});
      scores[n] = {upper ? part[n][2] : part[n][0], upper ? part[n][3] : part[n][1]};
    }
    named_barrier(1 + 4 * team() + group_, 64);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const auto other = read<float2>(other_box + 256 * n);
      scores[n].x += other.x, scores[n].y += other.y;
    }
  }

  // A score with a scale that is no number is none either.
  __device__ __forceinline__ void spread_nan(const uint8_t* stage, float (&part)[kTiles][4]) const {
    bool nan[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      nan[r] = has_nan<Format>(stored_token<Layout>(stage, kGroupTokens * group_ + token_of_row(g_ + 8 * r)).scales);
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (nan[i / 2]) part[n][i] = NAN;
      }
    }
  }

  // Of two heads that one whose sum this lane keeps.
  __device__ __forceinline__ float own(const float2& heads) const {
    return (g_ & 1) == 0 ? heads.x : heads.y;
  }

  // Scores to weights. True if the warp's maxima, in kMaxima then, are larger than those so far.
  __device__ __forceinline__ bool soften(float2 (&scores)[kTiles], uint8_t* stage) {
    float4 factor[kTiles];  // {high, low; high, low} of heads 8n + 2c and the next
    float2 reference[kTiles];
    bool grows = false;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      factor[n] = read<float4>(shared_ + Layout::kFactors + 64 * n + 16 * c_);
      reference[n] = read<float2>(common(n));
      grows |= scores[n].x * factor[n].x > reference[n].x;
      grows |= scores[n].y * factor[n].z > reference[n].y;
    }
    grows = __any_sync(~0U, grows);
    if (grows) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const float2 before = reference[n];
        reference[n] = {raised(scores[n].x, factor[n].x, before.x), raised(scores[n].y, factor[n].z, before.y)};
        sum_[n] *= exp2_fast(own(before) - own(reference[n]));
        if (g_ == 0) write(maxima(stage, warp_, n), reference[n]);
      }
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      scores[n] = {weight_of(scores[n].x, factor[n].x, factor[n].y, reference[n].x),
                   weight_of(scores[n].y, factor[n].z, factor[n].w, reference[n].y)};
      sum_[n] += own(scores[n]) + __shfl_xor_sync(~0U, own(float2{scores[n].y, scores[n].x}), 4);
    }
    return grows;
  }

  // The score is not rounded before the maximum is taken off it. Missing tokens stay -inf.
  __device__ __forceinline__ static float weight_of(float score, float high, float low, float reference) {
    const float exponent = fmaf(score, high, fmaf(score, low, kWeightBits - reference));
    return exp2_fast(score == -INFINITY ? -INFINITY : exponent);
  }

  // A head's reference must not depend on other heads.
  __device__ __forceinline__ static float raised(float score, float factor, float reference) {
    // The factor may be negative.
    float maximum = score == -INFINITY ? -INFINITY : score * factor;
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0U, maximum, lanes));
    return maximum > reference ? round_up_maximum(maximum) : reference;
  }

  // Tokens are rows of the tile that is stored, heads its columns.
  __device__ __forceinline__ void store_weights(const float2 (&weights)[kTiles], uint8_t* stage) const {
    const uint32_t to = smem_address(stage + weights_to_);
    uint32_t pairs[kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) pairs[n] = pack_f16x2(weights[n].x, weights[n].y);
    store_matrix_transposed(to, pairs);
    if constexpr (Layout::kHasBf16Values) {
      uint32_t rests[kTiles];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        pairs[n] = pack_bf16x2(weights[n].x, weights[n].y);
        rests[n] = rest_of_bf16(pairs[n], weights[n].x, weights[n].y);
      }
      store_matrix_transposed(to + Layout::kWeightsHigh - Layout::kWeights, pairs);
      store_matrix_transposed(to + Layout::kWeightsLow - Layout::kWeights, rests);
    }
  }

  // --- PV (long_value.cuh) -------------------------------------------------------------------------------------------

  __device__ __forceinline__ void rescale(int n, const float2& by) {
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      results_[m][n][0] *= by.x, results_[m][n][1] *= by.y;
      results_[m][n][2] *= by.x, results_[m][n][3] *= by.y;
    }
  }

  // After adopt(): what the weights of head 8n + g that warp `warp` has made are multiplied with.
  __device__ __forceinline__ float factor_of(const uint8_t* stage, int warp, int n) const {
    const uint8_t* of_head = stage + Layout::kMaxima + 4 * (8 * n + g_);
    return exp2_fast(read<float>(of_head + 4 * Layout::kHeads * warp) -
                     read<float>(of_team() + Layout::kCommon + 4 * (8 * n + g_)));
  }

  // The chunk's bytes of the four tokens of this thread, from those of g on.
  template <bool kBf16>
  __device__ __forceinline__ void find_rows(const uint8_t* stage, int k, const uint8_t* (&rows)[4]) const {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      rows[x] = stage + (kKeepsRows ? value_row_[x % 2] : row_of_value<kBf16>(x % 2)) +
                (kGroupTokens * k + 8 * (x / 2)) * Format::kRowStride;
    }
  }
  // Of tokens x = 0 and 1.
  template <bool kBf16>
  __device__ __forceinline__ int row_of_value(int x) const {
    return Layout::kRows + (x == 0 ? c_ : 4 + ((c_ + 2) & 3)) * Format::kRowStride +
           (kBf16 ? Format::kBf16Offset + 16 * g_ : kChunkDims * warp_ + 8 * g_);
  }
  // Of head 8n + g and these tokens.
  __device__ __forceinline__ uint2 weights_of(const uint8_t* stage, int kind, int k, int n) const {
    return read<uint2>(stage + kind + 2 * (g_ * kGroupTokens + 4 * c_) +
                       2 * (k * Layout::kHeads + 8 * n) * kGroupTokens);
  }
  // Who has made them: rows 4c to 4c + 3 are of the first half of the group, or of the second.
  __device__ __forceinline__ int maker_of(int k) const {
    return 4 * (c_ >> 1) + k;
  }

  // All warps take the largest of their references, and the units of the tile's scales. True if all had the same ones.
  __device__ __forceinline__ bool adopt(uint8_t* stage, int groups, bool grows);
  // A whole tile whose weights and scales refer to what the results do.
  __device__ __forceinline__ void accumulate(const uint8_t* stage);
  __device__ __forceinline__ void accumulate_any(const uint8_t* stage, int groups, bool even);
  // kAny: weights may have to be multiplied by factor_of(), if not `even`.
  template <bool kAny>
  __device__ __forceinline__ void add_group(const uint8_t* stage, int k, bool even);
  template <bool kAny>
  __device__ __forceinline__ void add_group_bf16(const uint8_t* stage, int k, bool even);
  // For scales of any range: weights times scales as BF16 and what that lacks, the values (exact in BF16, too) are
  // converted. Slow, and seldom needed.
  __device__ __forceinline__ void add_spread(const uint8_t* stage, int k, bool even);

  static constexpr int kOther = 4 * 256 * kTiles;  // from a warp's box to that of its group's other warp

  uint8_t* shared_;
  const int team_;
  int warp_, lane_, g_, c_;
  int group_, half_;  // in QK^T; `warp_`: of the team
  // Where the thread's part of these lies, of operand rows g and g + 8, in a stage or in all.
  int score_row_[2], score_scales_[2], query_, exchange_, weights_to_, value_row_[2];
  float sum_[kTiles];  // of head 8n + 2c + g % 2, of the tokens of two lanes, before weights are rounded
  Results results_;
};

}  // namespace flashmla::cuda

#include "kernels/cuda/long_value.cuh"
