// What the kernels are given: the caller's parameters in the form that a block works with.
#pragma once

#include <cstdint>

#include "flashmla/flashmla.h"

namespace flashmla::cuda {

// Division of 0 <= n < 2^31 by a fixed number: quotient = n * multiplier >> shift.
// Granlund and Montgomery, "Division by invariant integers using multiplication", with N = 31.
struct Divisor {
  uint32_t divisor;
  uint32_t multiplier;
  uint32_t shift;

  // `divisor` > 0.
  static Divisor of(int32_t divisor) {
    uint32_t log = 0;
    while ((int64_t{1} << log) < divisor) ++log;
    const uint64_t power = uint64_t{1} << (31 + log);
    const auto number = static_cast<uint64_t>(divisor);
    return {static_cast<uint32_t>(divisor), static_cast<uint32_t>((power + number - 1) / number), 31 + log};
  }
};

// One pool of records, or of BF16 rows, and how to find a token in it.
struct Pool {
  const uint8_t* base;
  int64_t page_stride;  // bytes
  int64_t num_slots;
  int64_t scale_offset;  // of a page's scale rows
  int64_t row_stride;    // bytes from one token of a page to the next
  Divisor page_size;
  bool aligned;  // every row and scale row may be copied in pieces of 16 bytes (V4_584 scales: 8)
};

// A list of tokens for each query token. What a kernel needs first comes first: parameters are fetched line by line.
struct Selection {
  const int32_t* indices;  // sparse: [batch, s_q, count]; dense: page numbers, [batch, pages]
  int64_t batch_stride, query_stride;
  const int32_t* lengths;  // [batch], may be null (sparse)
  int32_t count;           // sparse: topk; dense: pages in a row of the block table
  Pool pool;
};

struct Rows {
  int64_t batch, token, head;  // strides in elements
};

constexpr int kMaxSplits = 16;  // blocks of a cluster
constexpr int kPartialDims = 512;
constexpr int kUnits = 16;  // parts of a result that blocks share among them when they merge

struct DecodeArguments {
  Divisor splits;            // blocks of one cluster
  Divisor parts;             // clusters that share a row
  Divisor shards;            // blocks that share a row: splits * parts
  Divisor rows_per_request;  // sparse: s_q; dense: 1
  Selection main, extra;
  const uint16_t* q;
  Rows q_stride;
  uint16_t* out;
  Rows out_stride;
  float* lse;
  Rows lse_stride;
  const float* attn_sink;
  // softmax_scale * log2(e) = scale_high + scale_low
  float scale_high, scale_low;
  int32_t rows;  // sparse: query tokens of all requests; dense: requests
  int32_t s_q;
  int32_t num_heads;                   // dense: of one query token
  bool causal;                         // dense
  bool q_aligned;                      // rows of q may be read in pieces of 16 bytes
  bool out_aligned;                    // rows of out may be written in pieces of 16 bytes
  float* partial;                      // results of parts > 1 (combine.cu)
  int32_t heads_per_row;               // sparse: num_heads; dense: s_q * num_heads
  uint8_t first_unit[kMaxSplits + 1];  // of the merged result, for each block of a cluster (finish.cuh)
};

}  // namespace flashmla::cuda
