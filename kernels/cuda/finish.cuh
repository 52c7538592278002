// From accumulators to outputs: alone, or together with the other blocks of the cluster.
#pragma once

#include "kernels/cuda/decode.cuh"

namespace flashmla::cuda {

constexpr float kLog2E = 1.44269504088896341F;

// A sink as the exponent of a power of two in the units of sums, 2^-kWeightBits; -inf: none.
__device__ __forceinline__ float load_sink(const DecodeArguments& a, const Head& head) {
  if (a.attn_sink == nullptr || !head.real) return -INFINITY;
  return fmaf(__ldg(a.attn_sink + head.number), kLog2E, kWeightBits);
}

// The denominator of a head's weights, in units of 2^(maximum - kWeightBits); 0 only if there was no token.
__device__ __forceinline__ float denominator(float sink, float maximum, float sum) {
  return sum == 0 ? 0 : sum + exp2f(sink - maximum);
}

// ln(sum 2^(maximum - kWeightBits)), rounded about once: the sum is brought next to 1 before its logarithm is taken.
__device__ __forceinline__ float log_sum_exp(float maximum, float sum) {
  if (sum == 0) return INFINITY;
  const uint32_t bits = __float_as_uint(sum);
  const int32_t power = static_cast<int32_t>((bits - 0x3f3504f3U)) >> 23;  // sum = 2^power * [sqrt(1/2), sqrt(2))
  const float near_one = __uint_as_float(bits - (static_cast<uint32_t>(power) << 23));
  if (!(sum < INFINITY)) return sum;
  constexpr float kLn2High = 0.693145751953125F, kLn2Low = 1.42860682030941723e-6F;
  const float exponent = maximum - kWeightBits + static_cast<float>(power);
  return fmaf(exponent, kLn2High, fmaf(exponent, kLn2Low, logf(near_one)));
}

__device__ __forceinline__ void store_bf16x4(uint16_t* to, const float4& v, bool aligned) {
  const uint2 both = {pack_bf16x2(v.x, v.y), pack_bf16x2(v.z, v.w)};
  if (aligned) {
    *reinterpret_cast<uint2*>(to) = both;
  } else {
    to[0] = static_cast<uint16_t>(both.x), to[1] = static_cast<uint16_t>(both.x >> 16);
    to[2] = static_cast<uint16_t>(both.y), to[3] = static_cast<uint16_t>(both.y >> 16);
  }
}

__device__ __forceinline__ void store_bf16x8(uint16_t* to, const float (&v)[8], bool aligned) {
  if (aligned) {
    *reinterpret_cast<uint4*>(to) = {pack_bf16x2(v[0], v[1]), pack_bf16x2(v[2], v[3]), pack_bf16x2(v[4], v[5]),
                                     pack_bf16x2(v[6], v[7])};
  } else {
    store_bf16x4(to, {v[0], v[1], v[2], v[3]}, false);
    store_bf16x4(to + 4, {v[4], v[5], v[6], v[7]}, false);
  }
}

// Where the results of a head of this block go: to the caller, or, if other clusters share the row, to `partial`.
struct Destination {
  uint16_t* out;
  float* lse;
  float* values;  // null: to the caller
  float2* summary;
  bool aligned;

  template <typename Format>
  static __device__ __forceinline__ Destination of(const DecodeArguments& a, const Place& place, const Head& head,
                                                   int h) {
    Destination to{a.out + at(a.out_stride, place.b, head), a.lse + at(a.lse_stride, place.b, head), nullptr, nullptr,
                   a.out_aligned};
    if (a.parts.divisor > 1) {
      const int64_t rows = int64_t{a.rows} * a.parts.divisor;
      const int64_t index =
          (int64_t{place.row} * a.parts.divisor + place.part) * a.heads_per_row + place.first_head + h;
      to.values = a.partial + index * kPartialDims;
      to.summary = reinterpret_cast<float2*>(a.partial + rows * a.heads_per_row * kPartialDims) + index;
    }
    return to;
  }

  __device__ __forceinline__ void store(int dimension, const float4& v) const {
    if (values != nullptr) {
      *reinterpret_cast<float4*>(values + dimension) = v;
    } else {
      store_bf16x4(out + dimension, v, aligned);
    }
  }

  // Two dimensions.
  __device__ __forceinline__ void store(int dimension, const float2& v) const {
    if (values != nullptr) {
      *reinterpret_cast<float2*>(values + dimension) = v;
      return;
    }
    const uint32_t both = pack_bf16x2(v.x, v.y);
    if (aligned) {
      *reinterpret_cast<uint32_t*>(out + dimension) = both;
    } else {
      out[dimension] = static_cast<uint16_t>(both), out[dimension + 1] = static_cast<uint16_t>(both >> 16);
    }
  }

  __device__ __forceinline__ void store_sums(float maximum, float sum) const {
    if (summary != nullptr) {
      *summary = {maximum, sum};
    } else {
      *lse = log_sum_exp(maximum, sum);
    }
  }
};

__device__ __forceinline__ float4 times(const float4& v, float by) {
  return {v.x * by, v.y * by, v.z * by, v.w * by};
}

template <typename Worker>
__device__ __forceinline__ void finish_alone(const DecodeArguments& a, const Place& place, uint8_t* shared,
                                             Worker& worker) {
  using Layout = typename Worker::Layout;
  using Format = typename Layout::Format;
  worker.publish_sums();
  // What each head's accumulators are multiplied with: of scaled chunks, and of BF16 ones.
  uint8_t* shares = shared + Layout::kShares;
  for (int h = threadIdx.x; h < Layout::kHeads; h += kThreads) {
    const Head head = head_of<Format>(a, place, h);
    if (!head.real) continue;
    const float4 summary = summary_of<Layout>(shared, h);
    Destination::of<Format>(a, place, head, h).store_sums(summary.z, summary.w);
    const float inverse =
        summary.w == 0 ? 0 : 1 / denominator(read<float>(shared + Layout::kSinks + 4 * h), summary.z, summary.w);
    write(shares + 8 * h,
          float2{exp2_fast(summary.x - summary.z) * inverse, exp2_fast(summary.y - summary.z) * inverse});
  }
  sync_workers();
  worker.for_each_result([&](int h, int chunk, int offset, auto values) {
    const Head head = head_of<Format>(a, place, h);
    if (!head.real) return;
    const auto share = read<float2>(shares + 8 * h);
    const float inverse = chunk == Format::kBf16Chunk ? share.y : share.x;
    Destination::of<Format>(a, place, head, h).store(kChunkDims * chunk + offset, times(values, inverse));
  });
}

// A block sums up the same part of the result from all blocks of the cluster. Such a part is a number of units; a unit
// is a chunk for heads 0..3 or 4..7 of every 8. Block r has the units from first_unit[r] to first_unit[r + 1].
static_assert(kUnits == 2 * kValueChunks);

template <int kHeads>
constexpr int kUnitBytes = kHeads / 2 * kChunkDims * 4;

// Units of one block, at most.
__device__ __forceinline__ int most_units(const DecodeArguments& a) {
  return a.first_unit[1];
}

// Where the results of all blocks are collected: [source][unit][head of the unit][64] FP32, then a summary of each
// head, [source][head] {reference of the first chunk, of the last, maximum, sum}.
template <int kHeads>
__device__ __forceinline__ int results_bytes(const DecodeArguments& a) {
  return static_cast<int>(a.splits.divisor) * most_units(a) * kUnitBytes<kHeads>;
}

// True if there is room for that where tokens of a second tile would be, and no block of the cluster has one.
template <typename Layout>
__device__ __forceinline__ bool results_have_a_place(const DecodeArguments& a, const TokenRange& range) {
  const int bytes = results_bytes<Layout::kHeads>(a) + static_cast<int>(a.splits.divisor) * Layout::kHeads * 16;
  return range.each <= Layout::kTileTokens && bytes <= Layout::kSecondTileBytes;
}

template <typename Layout>
__device__ __forceinline__ uint8_t* exchange(const DecodeArguments& a, const TokenRange& range, uint8_t* shared) {
  return shared + (results_have_a_place<Layout>(a, range) ? Layout::kSecondTile : 0);
}

// One thread, before the cluster's first barrier.
template <typename Layout>
__device__ __forceinline__ void expect_results(const DecodeArguments& a, uint8_t* shared, int rank) {
  const uint32_t barrier = smem_address(shared + Layout::kArrived);
  const int units = a.first_unit[rank + 1] - a.first_unit[rank];
  barrier_init(barrier, 1);
  barrier_arrive_expect(barrier, a.splits.divisor * (units * kUnitBytes<Layout::kHeads> + Layout::kHeads * 16));
}

template <typename Worker>
__device__ __forceinline__ void send_results(const DecodeArguments& a, const TokenRange& range, uint8_t* shared,
                                             Worker& worker, int rank) {
  using Layout = typename Worker::Layout;
  constexpr int kHeads = Layout::kHeads;
  const int splits = static_cast<int>(a.splits.divisor);
  const uint32_t results = smem_address(exchange<Layout>(a, range, shared));
  const uint32_t summaries = results + results_bytes<kHeads>(a);
  const uint32_t to_all = results + rank * most_units(a) * kUnitBytes<kHeads>;
  const uint32_t arrived = smem_address(shared + Layout::kArrived);
  const auto send = [&](int h, int chunk, int offset, auto values) {
    const int unit = 2 * chunk + (h >> 2 & 1);
    const int owner = unit * splits / kUnits;
    const int head = h / 8 * 4 + (h & 3);
    const int place = (unit - a.first_unit[owner]) * kUnitBytes<kHeads> + (head * kChunkDims + offset) * 4;
    store_cluster(map_to_rank(to_all + place, owner), values, map_to_rank(arrived, owner));
  };
  worker.for_each_result(send);
  worker.publish_sums();
  for (int i = threadIdx.x; i < kHeads * splits; i += kThreads) {
    const int to = i / kHeads;
    const int head = i % kHeads;
    store_cluster(map_to_rank(summaries + 16 * (kHeads * rank + head), to), summary_of<Layout>(shared, head),
                  map_to_rank(arrived, to));
  }
}

// Keeps the sinks of the block's heads at hand. The sink of a row with several parts joins when they are added up.
template <typename Layout>
__device__ __forceinline__ void store_sinks(float sink, uint8_t* shared) {
  if (threadIdx.x < Layout::kHeads) write(shared + Layout::kSinks + 4 * threadIdx.x, sink);
}

// Sums up this block's units.
template <typename Layout>
__device__ __forceinline__ void merge_results(const DecodeArguments& a, const Place& place, const TokenRange& range,
                                              uint8_t* shared, int rank) {
  using Format = typename Layout::Format;
  constexpr int kHeads = Layout::kHeads;
  const int splits = static_cast<int>(a.splits.divisor);
  const uint8_t* results = exchange<Layout>(a, range, shared);
  const uint8_t* partials = results + results_bytes<kHeads>(a);
  const int first = a.first_unit[rank];
  const int own_units = a.first_unit[rank + 1] - first;
  const int stride = most_units(a) * kUnitBytes<kHeads>;
  barrier_wait_cluster(smem_address(shared + Layout::kArrived), 0);
  // What each source's accumulators are multiplied with: of scaled chunks, and of BF16 ones. [source][head]
  uint8_t* shares = shared + Layout::kShares;
  float total_maximum = 0, total_sum = 0;  // of head threadIdx.x
  for (int i = threadIdx.x; i < kHeads * splits; i += kThreads) {
    const int h = i % kHeads;
    float maximum = kNoMaximum;
#pragma unroll 4
    for (int s = 0; s < splits; ++s) maximum = fmaxf(maximum, read<float>(partials + 16 * (s * kHeads + h) + 8));
    float sum = 0;
#pragma unroll 4
    for (int s = 0; s < splits; ++s) {
      const auto part = read<float2>(partials + 16 * (s * kHeads + h) + 8);  // {maximum, sum}
      sum = fmaf(part.y, exp2_fast(part.x - maximum), sum);
    }
    const auto own = read<float4>(partials + 16 * i);
    const float sink = read<float>(shared + Layout::kSinks + 4 * h);
    const float inverse = own.w == 0 ? 0 : 1 / denominator(sink, maximum, sum);
    write(shares + 8 * i, float2{exp2_fast(own.x - maximum) * inverse, exp2_fast(own.y - maximum) * inverse});
    if (i < kHeads) total_maximum = maximum, total_sum = sum;
  }
  sync_workers();
  constexpr int kItems = kHeads / 2 * (kChunkDims / 4);  // of 4 dimensions, in one unit
  for (int i = threadIdx.x; i < own_units * kItems; i += kThreads) {
    const int unit = first + i / kItems;
    const int quad = i % (kChunkDims / 4);
    const int index = i % kItems / (kChunkDims / 4);  // of the unit's heads
    const int h = index / 4 * 8 + (unit & 1) * 4 + index % 4;
    const Head head = head_of<Format>(a, place, h);
    if (!head.real) continue;
    const int chunk = unit / 2;
    const uint8_t* share = shares + 8 * h + (chunk == Format::kBf16Chunk ? 4 : 0);
    const uint8_t* part = results + (unit - first) * kUnitBytes<kHeads> + index * kChunkDims * 4 + 16 * quad;
    float4 total = {0, 0, 0, 0};
#pragma unroll 4
    for (int s = 0; s < splits; ++s) {
      const auto by = read<float>(share + 8 * s * kHeads);
      const auto v = read<float4>(part + s * stride);
      total.x = fmaf(v.x, by, total.x);
      total.y = fmaf(v.y, by, total.y);
      total.z = fmaf(v.z, by, total.z);
      total.w = fmaf(v.w, by, total.w);
    }
    Destination::of<Format>(a, place, head, h).store(kChunkDims * chunk + 4 * quad, total);
  }
  if (rank != 0 || threadIdx.x >= kHeads) return;
  const Head head = head_of<Format>(a, place, static_cast<int>(threadIdx.x));
  if (!head.real) return;
  Destination::of<Format>(a, place, head, static_cast<int>(threadIdx.x)).store_sums(total_maximum, total_sum);
}

}  // namespace flashmla::cuda
