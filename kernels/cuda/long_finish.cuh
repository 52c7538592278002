// The end of a row of the kernel for many tokens: to the caller, or together with the other blocks of the cluster.
#pragma once

#include "kernels/cuda/long_worker.cuh"

namespace flashmla::cuda {

// Puts the row's maximum and sum of weights of each head into kTotals, and what the teams' results are to be multiplied
// with into kCommon: thread h, between barriers.
template <typename Layout>
__device__ __forceinline__ float2 add_up_sums(uint8_t* shared, int h) {
  float reference[Layout::kTeams], maximum = kNoMaximum, sum = 0;
#pragma unroll
  for (int team = 0; team < Layout::kTeams; ++team) {
    reference[team] = read<float>(shared + Layout::kTeam + team * Layout::kTeamBytes + Layout::kCommon + 4 * h);
    maximum = fmaxf(maximum, reference[team]);
  }
#pragma unroll
  for (int team = 0; team < Layout::kTeams; ++team) {
    float of_team = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      of_team += read<float>(shared + Layout::kWarpSums + 4 * ((team * kWarps + w) * Layout::kHeads + h));
    }
    const float by = exp2_fast(reference[team] - maximum);
    sum = fmaf(of_team, by, sum);
    write(shared + Layout::kTeam + team * Layout::kTeamBytes + Layout::kCommon + 4 * h, by);
  }
  write(shared + Layout::kTotals + 8 * h, float2{maximum, sum});
  return {maximum, sum};
}

// A block that has its row to itself. Several teams call scored() here.
template <typename Layout, typename Scored>
__device__ __forceinline__ void finish_row(const DecodeArguments& a, const Place& place, uint8_t* shared,
                                           LongWorker<Layout>& worker, int warp, int lane, Scored scored) {
  using Format = typename Layout::Format;
  worker.publish_sums();
  sync_teams<Layout>();
  if constexpr (Layout::kTeams > 1) scored();
  // Where a head's results go, null: nowhere, and what they are multiplied with.
  uint8_t* const outputs = shared + Layout::kOutputs;
  const bool to_caller = a.parts.divisor == 1;
  if (threadIdx.x < Layout::kHeads) {
    const int h = static_cast<int>(threadIdx.x);
    const Head head = head_of<Format>(a, place, h);
    const auto to = Destination::of<Format>(a, place, head, h);
    const float2 total = add_up_sums<Layout>(shared, h);
    const float whole = denominator(read<float>(shared + Layout::kSinks + 4 * h), total.x, total.y);
    uint8_t* const results = to_caller ? reinterpret_cast<uint8_t*>(to.out) : reinterpret_cast<uint8_t*>(to.values);
    write(outputs + 16 * h, head.real ? results : nullptr);
    write(outputs + 16 * h + 8, total.y == 0 ? 0 : __fdividef(1 << kShortResultBits, whole));
    if (head.real) to.store_sums(total.x, total.y);
  }
  sync_teams<Layout>();
  worker.settle();
  if (warp >= kWarps) return;
  const auto& results = worker.results();
  const int dimension = kChunkDims * warp + 8 * (lane >> 2);
#pragma unroll
  for (int n = 0; n < Layout::kHeads / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint8_t* const output = outputs + 16 * (8 * n + 2 * (lane & 3) + i);
      auto* const to = read<uint8_t*>(output);
      if (to == nullptr) continue;
      const auto share = read<float>(output + 8);
      float v[8];
#pragma unroll
      for (int m = 0; m < 4; ++m) v[2 * m] = results[m][n][i] * share, v[2 * m + 1] = results[m][n][2 + i] * share;
      if (to_caller) {
        store_bf16x8(reinterpret_cast<uint16_t*>(to) + dimension, v, a.out_aligned);
      } else {
        write(to + 4 * dimension, float4{v[0], v[1], v[2], v[3]});
        write(to + 4 * dimension + 16, float4{v[4], v[5], v[6], v[7]});
      }
    }
  }
}

// A block that shares its row, which is its only one.
template <typename Layout>
__device__ __forceinline__ void merge_row(const DecodeArguments& a, const Place& place, uint8_t* shared,
                                          LongWorker<Layout>& worker, int warp, int lane) {
  const int rank = cluster_rank();
  worker.publish_sums();
  // Behind it results may be written where tokens were.
  cluster_arrive();
  sync_teams<Layout>();
  if (threadIdx.x < Layout::kHeads) add_up_sums<Layout>(shared, static_cast<int>(threadIdx.x));
  sync_teams<Layout>();
  worker.settle();
  if (warp >= kWarps) return;
  const Sender<Layout> sender(a, shared, rank, warp, lane);
  cluster_wait();
  float sink[kHeadsOfWarp<Layout>];
#pragma unroll
  for (int i = 0; i < kHeadsOfWarp<Layout>; ++i) {
    const int h = warp + kWarps * i;
    const auto total = read<float2>(shared + Layout::kTotals + 8 * h);
    sender.tell(i, {total.x, total.y});
    sink[i] = read<float>(shared + Layout::kSinks + 4 * h);
  }
  sender.send(worker.results(), 1);
  finish_merge<Layout>(a, place, shared, rank, sink, warp, lane);
}

}  // namespace flashmla::cuda
