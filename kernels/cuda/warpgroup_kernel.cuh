// The warpgroup kernel and its launch (sm_90a), for one format and one number of heads per block.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/warpgroup.cuh"

namespace flashmla::cuda {

// Registers of a copying and of a computing thread; together not more than the block starts with.
constexpr int kCopyRegisters = 40;
constexpr int kWorkRegisters = 232;
static_assert(kCopyRegisters * 32 * kCopyWarps + kWorkRegisters * kThreads <= kWarpgroupThreads * 168);

// Brings the queries to the place where they will be converted; the warps take the heads in turn.
template <typename Layout>
__device__ __forceinline__ void start_queries(const DecodeArguments& a, const Place& place, uint8_t* shared, int warp,
                                              int lane) {
#pragma unroll 1
  for (int h = warp; h < Layout::kHeads; h += kWarps) {
    const Head head = head_of<typename Layout::Format>(a, place, h);
    const uint16_t* q = a.q + at(a.q_stride, place.b, head);
#pragma unroll 1
    for (int p = lane; p < QueryConverter<Layout>::kPieces; p += 32) {
      uint8_t* to = shared + Layout::raw_query(h, p);
      if (a.q_aligned || !head.real) {
        copy_async_16(smem_address(to), head.real ? q + 8 * p : a.q, !head.real);
      } else {
        copy_bytes_here(to, reinterpret_cast<const uint8_t*>(q + 8 * p), 16);
      }
    }
  }
  copy_async_commit();
}

template <typename Layout>
__device__ __forceinline__ void finish_queries(const DecodeArguments& a, const Place& place, uint8_t* shared, int warp,
                                               int lane) {
  using Converter = QueryConverter<Layout>;
  copy_async_wait<0>();
  __syncwarp();
#pragma unroll 1
  for (int h = warp; h < Layout::kHeads; h += kWarps) {
    uint32_t largest = 0;
    for (int p = lane; p < Converter::kPieces; p += 32) {
      largest = max(largest, Converter::largest_of(read<uint4>(shared + Layout::raw_query(h, p))));
    }
    const int32_t power = Converter::power_of(__reduce_max_sync(~0U, largest));
#pragma unroll 1
    for (int first = 0; first < Converter::kPieces; first += 32) {
      // A chunk is read as a whole before it is written to the same place.
      const int p = first + lane;
      const bool exists = p < Converter::kPieces;
      const auto piece = exists ? read<uint4>(shared + Layout::raw_query(h, p)) : uint4{0, 0, 0, 0};
      __syncwarp();
      if (exists) Converter::convert(shared, h, p, piece, power_of_two(power));
    }
    if (lane == 0) Converter::write_factor(a, shared, h, power);
  }
}

struct BlockWork {
  Place place;
  TokenRange range;
  int32_t rank;  // in the cluster
};

template <typename Format, int kHeads>
__device__ __forceinline__ BlockWork work_of_block(const DecodeArguments& a) {
  BlockWork work;
  work.rank = cluster_rank();
  work.place = place_of_block<kHeads>(a);
  work.range =
      token_range<Format>(a, work.place.b, work.place.part * static_cast<int32_t>(a.splits.divisor) + work.rank);
  return work;
}

// From the collected results of the blocks of a cluster to the caller: each block has every splits-th head.
template <typename Layout>
__device__ __forceinline__ void store_results(const DecodeArguments& a, uint8_t* shared, int warp, int lane) {
  using Format = typename Layout::Format;
  // Read again, so that no registers hold it while tokens are worked on.
  const auto work = read<BlockWork>(shared + Layout::kPlace);
  const int splits = static_cast<int>(a.splits.divisor);
  const int sources = splits * Layout::kTeams;
  const uint32_t summaries = smem_address(shared + Layout::kSummaries);
  const uint32_t results = smem_address(shared + Layout::kCollected) + 16 * lane;
#pragma unroll 1
  for (int h = work.rank + splits * warp; h < Layout::kHeads; h += splits * kWarps) {
    const Head head = head_of<Format>(a, work.place, h);
    if (!head.real) return;
    // Of a source: team s % kTeams of block s / kTeams.
    const auto place = [h](int s) { return s % Layout::kTeams * Layout::kHeads + h; };
    const auto summary = [&](int s) {
      return load_cluster_f2(map_to_rank(summaries + 8 * place(s), s / Layout::kTeams));
    };
    float maximum = kNoMaximum;
#pragma unroll 1
    for (int s = 0; s < sources; ++s) maximum = fmaxf(maximum, summary(s).x);
    float sum = 0;
    constexpr int kQuads = kValueChunks * kChunkDims / 128;
    float4 total[kQuads] = {};
#pragma unroll 1
    for (int s = 0; s < sources; ++s) {
      const float2 part = summary(s);
      const float by = exp2_fast(part.x - maximum);
      sum = fmaf(part.y, by, sum);
      const uint32_t from = map_to_rank(results + place(s) * Layout::kCollectedStride, s / Layout::kTeams);
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const float4 v = load_cluster_f4(from + 512 * i);
        total[i].x = fmaf(v.x, by, total[i].x);
        total[i].y = fmaf(v.y, by, total[i].y);
        total[i].z = fmaf(v.z, by, total[i].z);
        total[i].w = fmaf(v.w, by, total[i].w);
      }
    }
    const auto to = Destination::of<Format>(a, work.place, head, h);
    const float whole = denominator(read<float>(shared + Layout::kSinks + 4 * h), maximum, sum);
    const float share = sum == 0 ? 0 : exp2_fast(WarpgroupWorker<Layout>::kResultBits) / whole;
    if (lane == 0) to.store_sums(maximum, sum);
#pragma unroll
    for (int i = 0; i < kQuads; ++i) to.store(128 * i + 4 * lane, times(total[i], share));
  }
}

template <typename Format, int kHeads>
__global__ void __launch_bounds__(kWarpgroupThreads, 1) warpgroup_kernel(const __grid_constant__ DecodeArguments a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Layout = WarpgroupLayout<Format, kHeads>;
  extern __shared__ __align__(1024) uint8_t shared[];
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const BlockWork work = work_of_block<Format, kHeads>(a);
  if (warp == kWarps) init_slots<Layout>(shared, lane);
  __syncthreads();
  if (warp >= kWarps) {
    release_registers<kCopyRegisters>();
    copy_groups<Layout>(a, work.place, work.range, shared, warp - kWarps, lane);
    return;
  }
  start_queries<Layout>(a, work.place, shared, warp, lane);
  float sink = -INFINITY;
  if (threadIdx.x < kHeads && a.parts.divisor == 1) {
    sink = load_sink(a, head_of<Format>(a, work.place, static_cast<int>(threadIdx.x)));
  }
  store_sinks<Layout>(sink, shared);
  if (threadIdx.x < Layout::kTeams * kHeads) write(shared + Layout::kReference + 4 * threadIdx.x, kNoMaximum);
  finish_queries<Layout>(a, work.place, shared, warp, lane);
  if (threadIdx.x < 2 * kWarps) write(shared + Layout::kSpread + 4 * threadIdx.x, 0U);
  if (threadIdx.x < 2 * kValueChunks) write(shared + Layout::kUnits + 4 * threadIdx.x, kNoUnits);
  if (threadIdx.x < 8 * kWarps) write(shared + Layout::kOwnUnits + 4 * threadIdx.x, static_cast<float>(kNoUnits));
  if (threadIdx.x == 0) {
    write(shared + Layout::kPlace, work);
    write(shared + Layout::kDescriptors,
          uint4{b_descriptor(smem_address(shared + Layout::kQuery)),
                b_descriptor(smem_address(shared + Layout::kWeights)),
                b_descriptor(smem_address(shared + Layout::kWeights + Layout::kHalfBytes)),
                static_cast<uint32_t>(groups_of(work.range))});
  }
  fence_async_proxy();
  sync_workers();
  take_registers<kWorkRegisters>();
  WarpgroupWorker<Layout> worker(shared, warp, lane);
  worker.run();
  worker.collect_results();
  const bool alone = a.splits.divisor == 1;
  if (alone) {
    sync_workers();
  } else {
    cluster_arrive();
    cluster_wait();
  }
  store_results<Layout>(a, shared, warp, lane);
  if (alone) return;
  // Others may still read this block's results.
  cluster_arrive();
  cluster_wait();
#endif
}

template <typename Format, int kHeads>
Kernel describe_warpgroup_kernel(double start, double per_token) {
  Kernel kernel = describe<WarpgroupLayout<Format, kHeads>>(&warpgroup_kernel<Format, kHeads>, kWarpgroupThreads,
                                                            {start, per_token, per_token});
  kernel.splits = kAnySplits;
  return kernel;
}

template <typename Format>
Kernels describe_warpgroup_kernels() {
  if (std::string_view(FLASHMLA_ARCH_NAME) != "sm_90a") return {};
  return {describe_warpgroup_kernel<Format, 8>(7.2, 0.026), describe_warpgroup_kernel<Format, 16>(7.2, 0.0295),
          describe_warpgroup_kernel<Format, 32>(10, 0.038), describe_warpgroup_kernel<Format, 64>(22, 0.052)};
}

}  // namespace flashmla::cuda
