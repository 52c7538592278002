// Scores to weights, for a team of the warpgroup kernel: all weights of a tile refer to one maximum of each head.
#pragma once

#include "kernels/cuda/score.cuh"
#include "kernels/cuda/warpgroup_layout.cuh"

namespace flashmla::cuda {

template <typename SharedLayout>
class WarpgroupSoftmax {
 public:
  using Layout = SharedLayout;
  static constexpr int kTiles = Layout::kHeads / 8;
  using Scores = float[4 * kTiles];

  __device__ __forceinline__ void take_place(uint8_t* shared, int warp, int lane) {
    shared_ = shared, warp_ = warp, team_ = warp / Layout::kTeamWarps, lane_ = lane;
    g_ = lane >> 2, c_ = lane & 3;
  }

  // Before the first tile of a row.
  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int n = 0; n < kSums; ++n) sum_[n][0] = sum_[n][1] = 0;
    if constexpr (kSumsInShared) write(lane_sums(), float2{0, 0});
  }

  // Raw scores to weights in shared memory, in two steps with a barrier of the team in each. `valid`: bit t is set if
  // the warp's token t is there. With higher maxima, or if `changes` is true for any thread of the team: calls
  // change(), then rescale(n, {factor of head 8n + 2c, of head 8n + 2c + 1}), and returns true.
  template <typename Change, typename Rescale>
  __device__ __forceinline__ bool start(Scores& scores, uint32_t valid, bool changes, Change change, Rescale rescale) {
    if (valid != 0xffffU) drop_missing(scores, valid);
    bool grows = changes;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 factor = factors(n);
      const float2 reference = references(n);
      grows |= fmaxf(scaled(scores[4 * n], factor.x), scaled(scores[4 * n + 2], factor.x)) > reference.x;
      grows |= fmaxf(scaled(scores[4 * n + 1], factor.z), scaled(scores[4 * n + 3], factor.z)) > reference.y;
    }
    // Behind it, every warp has done with the weights of the tile before.
    if (!named_barrier_or(1 + team_, kTeamThreads, grows)) return false;
    change();
    raise_references(scores, rescale);
    return true;
  }

  // Behind it the whole team may read the weights.
  __device__ __forceinline__ void finish(Scores& scores) {
    store_weights(scores);
    fence_async_proxy();
    sync_team();
  }

  // Weights as BF16, and what that lacks, in pairs of heads: [tile of heads][operand row g, g + 8].
  __device__ __forceinline__ static void split_bf16(const Scores& weights, uint32_t (&pairs)[2 * kTiles],
                                                    uint32_t (&rests)[2 * kTiles]) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const float first = weights[2 * i], second = weights[2 * i + 1];
      pairs[i] = pack_bf16x2(first, second);
      rests[i] = rest_of_bf16(pairs[i], first, second);
    }
  }

  // Replaces the weights in shared memory. The team, after finish().
  __device__ __forceinline__ void store_pairs(const uint32_t (&pairs)[2 * kTiles]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      store_matrix_transposed(weights() + n * 8 * kSwizzledRow, pairs[2 * n], pairs[2 * n + 1]);
    }
    fence_async_proxy();
    sync_team();
  }

  __device__ __forceinline__ void sync_team() const {
    named_barrier(1 + Layout::kTeams + team_, kTeamThreads);
  }

  // Puts the warp's sums of weights into shared memory.
  __device__ __forceinline__ void publish_sums() {
    if constexpr (!kSumsInShared) {
#pragma unroll
      for (int n = 0; n < kSums; ++n) publish_sums(n);
    }
  }

 private:
  static constexpr int kTeamThreads = 32 * Layout::kTeamWarps;
  // Sums of many heads do not fit into registers: a warp's are added up, and lane (g, c) keeps a part of those of tile
  // g % kTiles.
  static constexpr bool kFoldsSums = kTiles >= 4;
  static constexpr bool kSumsInShared = kTiles == 8 && !Layout::kHasBf16Values;  // as registers allow
  static constexpr int kSums = kFoldsSums ? 1 : kTiles;

  // Lane i < 16 has the address of head i % 8 of a tile of heads and of rows 8 (i / 8) .. of the warp's group.
  __device__ __forceinline__ uint32_t weights() const {
    return smem_address(shared_ + Layout::kWeights + warp_ / 4 * Layout::kHalfBytes +
                        swizzled(lane_ & 7, 2 * (warp_ % 4) + (lane_ >> 3 & 1)));
  }

  // {high, low; high, low} of heads 8n + 2c and the next.
  __device__ __forceinline__ float4 factors(int n) const {
    return read<float4>(shared_ + Layout::kFactors + 64 * n + 16 * c_);
  }

  // What weights refer to, of the same heads.
  __device__ __forceinline__ float2 references(int n) const {
    return read<float2>(shared_ + Layout::kReference + 4 * (team_ * Layout::kHeads + 8 * n + 2 * c_));
  }

  // A missing token's score stays -inf, whatever the sign of the factor.
  __device__ __forceinline__ static float scaled(float score, float factor) {
    return score == -INFINITY ? -INFINITY : score * factor;
  }

  __device__ __forceinline__ void drop_missing(Scores& scores, uint32_t valid) const {
    const int token = token_of_operand(g_);  // of operand row g; that of row g + 8 is 8 behind
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if ((valid >> (token + 8 * r) & 1) != 0) continue;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) scores[4 * n + 2 * r] = scores[4 * n + 2 * r + 1] = -INFINITY;
    }
  }

  template <typename Rescale>
  __device__ __forceinline__ void raise_references(const Scores& scores, Rescale rescale) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 factor = factors(n);
      float maximum[2] = {fmaxf(scaled(scores[4 * n], factor.x), scaled(scores[4 * n + 2], factor.x)),
                          fmaxf(scaled(scores[4 * n + 1], factor.z), scaled(scores[4 * n + 3], factor.z))};
#pragma unroll
      for (int lanes = 4; lanes < 32; lanes *= 2) {
        maximum[0] = fmaxf(maximum[0], __shfl_xor_sync(~0U, maximum[0], lanes));
        maximum[1] = fmaxf(maximum[1], __shfl_xor_sync(~0U, maximum[1], lanes));
      }
      if (g_ == 0) {
        write(shared_ + Layout::kMaxima + 4 * (warp_ * Layout::kHeads + 8 * n + 2 * c_),
              float2{maximum[0], maximum[1]});
      }
    }
    sync_team();
    const int head = 32 * (warp_ % Layout::kTeamWarps) + lane_;
    if (head < Layout::kHeads) {
      uint8_t* reference = shared_ + Layout::kReference + 4 * (team_ * Layout::kHeads + head);
      const auto before = read<float>(reference);
      float maximum = before;
#pragma unroll
      for (int k = 0; k < Layout::kTeamWarps; ++k) {
        const int warp = team_ * Layout::kTeamWarps + k;
        maximum = fmaxf(maximum, read<float>(shared_ + Layout::kMaxima + 4 * (warp * Layout::kHeads + head)));
      }
      if (maximum > before) maximum = round_up_maximum(maximum);
      write(reference, maximum);
      write(shared_ + Layout::kChange + 4 * (team_ * Layout::kHeads + head), exp2_fast(before - maximum));
    }
    sync_team();
    const uint8_t* changes = shared_ + Layout::kChange + 4 * (team_ * Layout::kHeads + 2 * c_);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const auto change = read<float2>(changes + 32 * n);
      rescale(n, change);
      if constexpr (!kFoldsSums) sum_[n][0] *= change.x, sum_[n][1] *= change.y;
    }
    if constexpr (kFoldsSums) {
      const auto change = read<float2>(changes + 32 * (g_ % kTiles));
      add_sums({0, 0}, change);
    }
  }

  __device__ __forceinline__ void store_weights(Scores& scores) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 factor = factors(n);
      const float2 reference = references(n);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = scores[4 * n + i];
        const float high = (i & 1) == 0 ? factor.x : factor.z, low = (i & 1) == 0 ? factor.y : factor.w;
        const float from = kWeightBits - ((i & 1) == 0 ? reference.x : reference.y);
        // The score is not rounded before the maximum is taken off it. Missing tokens stay -inf.
        const float exponent = fmaf(score, high, fmaf(score, low, from));
        score = exp2_fast(score == -INFINITY ? -INFINITY : exponent);
        if constexpr (!kFoldsSums) sum_[n][i & 1] += score;
      }
      const float* w = &scores[4 * n];
      const uint32_t to = weights() + n * 8 * kSwizzledRow;
      store_matrix_transposed(to, pack_f16x2(w[0], w[1]), pack_f16x2(w[2], w[3]));
      if constexpr (Layout::kHasBf16Values) {
        const uint32_t rounded[2] = {pack_bf16x2(w[0], w[1]), pack_bf16x2(w[2], w[3])};
        store_matrix_transposed(to + (Layout::kWeightsBf16 - Layout::kWeights), rounded[0], rounded[1]);
        store_matrix_transposed(to + (Layout::kWeightsLow - Layout::kWeights), rest_of_bf16(rounded[0], w[0], w[1]),
                                rest_of_bf16(rounded[1], w[2], w[3]));
      }
    }
    if constexpr (kFoldsSums) fold_sums(scores);
  }

  __device__ __forceinline__ void publish_sums(int n) {
    float2 sum = {sum_[n][0], sum_[n][1]};
    // Over the lanes that have parts of the same heads' sums.
#pragma unroll
    for (int lanes = kFoldsSums ? 4 * kTiles : 4; lanes < 32; lanes *= 2) {
      sum.x += __shfl_xor_sync(~0U, sum.x, lanes);
      sum.y += __shfl_xor_sync(~0U, sum.y, lanes);
    }
    const int tile = kFoldsSums ? g_ % kTiles : n;
    if (!kFoldsSums && g_ != 0) return;
    write(shared_ + Layout::kWarpSums + 4 * (warp_ * Layout::kHeads + 8 * tile + 2 * c_), sum);
  }

  // To the lane's sums, multiplied by `change` before that.
  __device__ __forceinline__ void add_sums(const float2& more, const float2& change) {
    if constexpr (kSumsInShared) {
      const auto sums = read<float2>(lane_sums());
      write(lane_sums(), float2{fmaf(sums.x, change.x, more.x), fmaf(sums.y, change.y, more.y)});
    } else {
      sum_[0][0] = fmaf(sum_[0][0], change.x, more.x), sum_[0][1] = fmaf(sum_[0][1], change.y, more.y);
    }
  }

  // Where lane (g, c) keeps the sums of heads 8g + 2c and the next, which no other lane has a part of.
  __device__ __forceinline__ uint8_t* lane_sums() const {
    return shared_ + Layout::kWarpSums + 4 * (warp_ * Layout::kHeads + 8 * g_ + 2 * c_);
  }

  // Adds up the 16 weights of each head over the lanes with the same c.
  __device__ __forceinline__ void fold_sums(const Scores& scores) {
    float part[2 * kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      part[2 * n] = scores[4 * n] + scores[4 * n + 2];
      part[2 * n + 1] = scores[4 * n + 1] + scores[4 * n + 3];
    }
    fold<kTiles>(part);
    add_sums({part[0], part[1]}, {1, 1});
  }

  // From kCount tiles to half of them, those that this lane keeps, down to one.
  template <int kCount>
  __device__ __forceinline__ void fold(float (&part)[2 * kTiles]) const {
    const bool upper = (g_ & (kCount / 2)) != 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float mine = upper ? part[kCount + i] : part[i];
      const float other = upper ? part[i] : part[kCount + i];
      part[i] = mine + __shfl_xor_sync(~0U, other, 2 * kCount);
    }
    if constexpr (kCount > 2) fold<kCount / 2>(part);
  }

  uint8_t* shared_;
  int warp_, team_, lane_, g_, c_;
  float sum_[kSums][2];  // of this lane's tokens, before weights are rounded
};

}  // namespace flashmla::cuda
