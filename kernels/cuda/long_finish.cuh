// The end of a row of the kernel for many tokens: to the caller, or together with the other blocks of the cluster.
#pragma once

#include "kernels/cuda/long_worker.cuh"
#include "kernels/cuda/short_merge.cuh"

namespace flashmla::cuda {

// A block that has its row to itself.
template <typename Layout>
__device__ __forceinline__ void finish_row(const DecodeArguments& a, const Place& place, uint8_t* shared,
                                           const LongWorker<Layout>& worker, int warp, int lane) {
  using Format = typename Layout::Format;
  worker.publish_sums();
  sync_workers();
  // Where a head's results go, null: nowhere, and what they are multiplied with.
  uint8_t* const outputs = shared + Layout::kOutputs;
  const bool to_caller = a.parts.divisor == 1;
  if (threadIdx.x < Layout::kHeads) {
    const int h = static_cast<int>(threadIdx.x);
    const Head head = head_of<Format>(a, place, h);
    const auto to = Destination::of<Format>(a, place, head, h);
    const auto maximum = read<float>(shared + Layout::kCommon + 4 * h);
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += read<float>(shared + Layout::kWarpSums + 4 * (w * Layout::kHeads + h));
    const float whole = denominator(read<float>(shared + Layout::kSinks + 4 * h), maximum, sum);
    uint8_t* const results = to_caller ? reinterpret_cast<uint8_t*>(to.out) : reinterpret_cast<uint8_t*>(to.values);
    write(outputs + 16 * h, head.real ? results : nullptr);
    write(outputs + 16 * h + 8, sum == 0 ? 0 : __fdividef(1 << kShortResultBits, whole));
    if (head.real) to.store_sums(maximum, sum);
  }
  sync_workers();
  const float by = small_power_of_two(worker.exponent() - kShortResultBits);
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
      for (int m = 0; m < 4; ++m) {
        v[2 * m] = results[m][n][i] * by * share, v[2 * m + 1] = results[m][n][2 + i] * by * share;
      }
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
                                          const LongWorker<Layout>& worker, int warp, int lane) {
  using Format = typename Layout::Format;
  constexpr int kHeadsOfWarp = Layout::kHeads / kWarps;
  const int rank = cluster_rank();
  worker.publish_sums();
  // Behind it results may be written where tokens were.
  cluster_arrive();
  sync_workers();
  HeadSums own[kHeadsOfWarp];
  float sink[kHeadsOfWarp];
#pragma unroll
  for (int i = 0; i < kHeadsOfWarp; ++i) {
    const int h = warp + kWarps * i;
    float sum = lane < kWarps ? read<float>(shared + Layout::kWarpSums + 4 * (lane * Layout::kHeads + h)) : 0;
#pragma unroll
    for (int lanes = kWarps / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0U, sum, lanes);
    own[i] = {read<float>(shared + Layout::kCommon + 4 * h), __shfl_sync(~0U, sum, 0)};
    sink[i] = read<float>(shared + Layout::kSinks + 4 * h);
  }
  const Sender<Layout> sender(a, shared, rank, warp, lane);
  cluster_wait();
#pragma unroll
  for (int i = 0; i < kHeadsOfWarp; ++i) sender.tell(i, own[i]);
  sender.send(worker.results(), small_power_of_two(worker.exponent() - kShortResultBits));
  finish_merge<Layout>(a, place, shared, rank, sink, warp, lane);
}

}  // namespace flashmla::cuda
