// WarpgroupWorker's end of a row: the teams' values come together in registers, and go from there to the caller, or to
// where the other blocks of the cluster read them.
#pragma once

#include "kernels/cuda/finish.cuh"
#include "kernels/cuda/warpgroup.cuh"

namespace flashmla::cuda {

// True if a block's results are final, and can be stored as they are.
__device__ __forceinline__ bool stores_directly(const DecodeArguments& a) {
  return a.shards.divisor == 1 && a.out_aligned;
}

__device__ __forceinline__ uint32_t join(uint32_t pair) {
  return pair;
}
__device__ __forceinline__ uint4 join(uint32_t first, uint32_t second, uint32_t third, uint32_t fourth) {
  return {first, second, third, fourth};
}

template <typename SharedLayout>
template <typename Meanwhile>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::finish(const DecodeArguments& a, Meanwhile meanwhile) {
  softmax_.publish_sums();
  take_place();
  // Behind it no warp reads the row's queries and weights.
  sync_work_warps<Layout>();
  if (threadIdx.x < Layout::kHeads) summarise(a, static_cast<int>(threadIdx.x));
  meanwhile();
  sync_work_warps<Layout>();
  apply_shares();
  if constexpr (Layout::kTeams > 1) add_up_teams();
  if (stores_directly(a)) {
    for_each_part([&](int h, int dimension, auto... pairs) {
      auto* out = read<uint16_t*>(shared_ + Layout::kOutputs + 8 * h);
      if (out != nullptr) write(reinterpret_cast<uint8_t*>(out + dimension), join(pack_bf16x2(pairs.x, pairs.y)...));
    });
  } else {
    for_each_part([&](int h, int dimension, auto... pairs) {
      uint8_t* to = shared_ + Layout::kCollected + h * Layout::kCollectedStride + 4 * dimension;
      ((write(to, pairs), to += sizeof(pairs)), ...);
    });
  }
}

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::summarise(const DecodeArguments& a, int head) const {
  float reference[Layout::kTeams], sums[Layout::kTeams];
  float maximum = kNoMaximum;
#pragma unroll
  for (int team = 0; team < Layout::kTeams; ++team) {
    reference[team] = read<float>(shared_ + Layout::kReference + 4 * (team * Layout::kHeads + head));
    maximum = fmaxf(maximum, reference[team]);
    sums[team] = 0;
#pragma unroll
    for (int k = 0; k < Layout::kTeamWarps; ++k) {
      const int warp = team * Layout::kTeamWarps + k;
      sums[team] += read<float>(shared_ + Layout::kWarpSums + 4 * (warp * Layout::kHeads + head));
    }
  }
  float sum = 0;
#pragma unroll
  for (int team = 0; team < Layout::kTeams; ++team) {
    reference[team] = exp2_fast(reference[team] - maximum);
    sum = fmaf(sums[team], reference[team], sum);
  }
  float share = 1;
  if (stores_directly(a)) {
    const auto place = read<Place>(shared_ + Layout::kPlace);
    const Head which = head_of<Format>(a, place, head);
    const float whole = denominator(read<float>(shared_ + Layout::kSinks + 4 * head), maximum, sum);
    share = sum == 0 ? 0 : exp2_fast(kResultBits) / whole;
    const auto to = Destination::of<Format>(a, place, which, head);
    if (which.real) to.store_sums(maximum, sum);
    write(shared_ + Layout::kOutputs + 8 * head, which.real ? to.out : nullptr);
  } else {
    write(shared_ + Layout::kSummaries + 8 * head, float2{maximum, sum});
  }
#pragma unroll
  for (int team = 0; team < Layout::kTeams; ++team) {
    write(shared_ + Layout::kShares + 4 * (team * Layout::kHeads + head), reference[team] * share);
  }
}

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::apply_shares() {
  float2 shares[kTiles];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    shares[n] = read<float2>(shared_ + Layout::kShares + 4 * (team_ * Layout::kHeads + 8 * n + 2 * c_));
  }
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      // In two steps: the power does not need to be a normal number by itself.
      const float by = exp2_fast(exponent_of_results(set, m) / 2);
      auto& values = accumulators_[set][m];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const float2 share = {by * shares[n].x, by * shares[n].y};
        values[4 * n] = values[4 * n] * by * share.x;
        values[4 * n + 1] = values[4 * n + 1] * by * share.y;
        values[4 * n + 2] = values[4 * n + 2] * by * share.x;
        values[4 * n + 3] = values[4 * n + 3] * by * share.y;
      }
    }
  }
}

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::add_up_teams() {
  constexpr int kTeams = Layout::kTeams;
  // Each team has one part in a turn, in two steps of half of its values.
  constexpr int kSteps = 2 * ((kParts + kTeams - 1) / kTeams);
  constexpr int kAtOnce = Layout::kExchangeBytes / Layout::kTurnBytes;
  // For team `owner` from the `nth` of the teams behind it.
  const auto place = [&](int i, int owner, int nth) {
    const int warp = (owner * (kTeams - 1) + nth) * Layout::kTeamWarps + rank_;
    return shared_ + Layout::kExchange + i * Layout::kTurnBytes + 16 * (32 * warp + lane_);
  };
  // Calls visit(i, owner, part, half) for each step `first` + i that is made at once, and each team.
  const auto for_each_owner = [](int first, auto visit) {
#pragma unroll
    for (int i = 0; i < kAtOnce && first + i < kSteps; ++i) {
      const int turn = (first + i) / 2, half = (first + i) % 2;
#pragma unroll
      for (int owner = 0; owner < kTeams; ++owner) {
        const int part = kTeams * turn + owner;
        if (part < kParts) visit(i, owner, part, half);
      }
    }
  };
#pragma unroll
  for (int first = 0; first < kSteps; first += kAtOnce) {
    if (first > 0) sync_work_warps<Layout>();
    for_each_owner(first, [&](int i, int owner, int part, int half) {
      if (owner == team_) return;
      write(place(i, owner, team_ - owner - 1 + (team_ < owner ? kTeams : 0)), values(part, half));
    });
    sync_work_warps<Layout>();
    for_each_owner(first, [&](int i, int owner, int part, int half) {
      if (owner != team_) return;
      const int at = 4 * (part / 2 % kTiles) + part % 2;
      auto& set = accumulators_[part / (2 * kTiles)];
#pragma unroll
      for (int nth = 0; nth + 1 < kTeams; ++nth) {
        const auto more = read<float4>(place(i, owner, nth));
        set[2 * half][at] += more.x, set[2 * half][at + 2] += more.y;
        set[2 * half + 1][at] += more.z, set[2 * half + 1][at + 2] += more.w;
      }
    });
  }
}

template <typename SharedLayout>
__device__ __forceinline__ float4 WarpgroupWorker<SharedLayout>::values(int part, int half) const {
  const int at = 4 * (part / 2 % kTiles) + part % 2;
  const auto& set = accumulators_[part / (2 * kTiles)];
  return {set[2 * half][at], set[2 * half][at + 2], set[2 * half + 1][at], set[2 * half + 1][at + 2]};
}

template <typename SharedLayout>
template <typename Store>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::for_each_part(Store store) const {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    if (part % Layout::kTeams != team_) continue;
    const int set = part / (2 * kTiles);
    const int head = 8 * (part / 2 % kTiles) + 2 * c_ + part % 2;
    const float4 first = values(part, 0), second = values(part, 1);
    const float2 pairs[4] = {{first.x, first.y}, {first.z, first.w}, {second.x, second.y}, {second.z, second.w}};
    if (is_mixed(set)) {
      const int dimension = 4 * kChunkDims + 16 * (warp_ % 4) + 2 * g_;
#pragma unroll
      for (int m = 0; m < 4; ++m) store(head, dimension + kChunkDims * m, pairs[m]);
    } else {
      store(head, kChunkDims * chunk_of(set, 0) + 8 * g_, pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }
}

// From the blocks of a cluster to the caller: each block adds up a part of the results. Work warps, between barriers of
// the cluster.
template <typename Layout>
__device__ __forceinline__ void merge_results(const DecodeArguments& a, uint8_t* shared, int warp, int lane) {
  using Format = typename Layout::Format;
  const auto place = read<Place>(shared + Layout::kPlace);
  const int splits = static_cast<int>(a.splits.divisor);
  const uint32_t summaries = smem_address(shared + Layout::kSummaries);
  const uint32_t results = smem_address(shared + Layout::kCollected);
  // What a warp adds up at a time: 4 values a lane of a quarter of a head's results. Of many heads whole results, so
  // that more is on its way.
  constexpr int kQuarters = kValueChunks * kChunkDims / 128;
  constexpr int kAtOnce = Layout::kHeads >= 32 ? kQuarters : 1;
#pragma unroll 1
  for (int i = kAtOnce * (cluster_rank() + splits * warp); i < kQuarters * Layout::kHeads;
       i += kAtOnce * splits * Layout::kWorkWarps) {
    const int h = i / kQuarters;
    const int dimension = 128 * (i % kQuarters) + 4 * lane;
    const Head head = head_of<Format>(a, place, h);
    if (!head.real) return;
    // Lane s has block s.
    float2 summary = {kNoMaximum, 0};
    if (lane < splits) summary = load_cluster_f2(map_to_rank(summaries + 8 * h, lane));
    float maximum = summary.x;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0U, maximum, lanes));
    const float by = exp2_fast(summary.x - maximum);
    float sum = summary.y * by;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0U, sum, lanes);
    float4 total[kAtOnce] = {};
#pragma unroll 4
    for (int s = 0; s < splits; ++s) {
      const float by_s = __shfl_sync(~0U, by, s);
      const uint32_t from = map_to_rank(results + h * Layout::kCollectedStride + 4 * dimension, s);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const float4 v = load_cluster_f4(from + 512 * k);
        total[k].x = fmaf(v.x, by_s, total[k].x);
        total[k].y = fmaf(v.y, by_s, total[k].y);
        total[k].z = fmaf(v.z, by_s, total[k].z);
        total[k].w = fmaf(v.w, by_s, total[k].w);
      }
    }
    const auto to = Destination::of<Format>(a, place, head, h);
    const float whole = denominator(read<float>(shared + Layout::kSinks + 4 * h), maximum, sum);
    const float share = sum == 0 ? 0 : exp2_fast(WarpgroupWorker<Layout>::kResultBits) / whole;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) to.store(dimension + 128 * k, times(total[k], share));
    if (dimension == 0) to.store_sums(maximum, sum);
  }
}

}  // namespace flashmla::cuda
