#include "kernels/cuda/call.h"

#include <cmath>

#include "kernels/api/layout.h"

namespace flashmla::cuda {

void set_shards(DecodeArguments& a, int32_t splits, int32_t parts, float* partial) {
  a.splits = Divisor::of(splits);
  a.parts = Divisor::of(parts);
  a.shards = Divisor::of(splits * parts);
  a.partial = partial;
  for (int32_t i = 0; i <= splits; ++i) a.first_unit[i] = static_cast<uint8_t>((kUnits * i + splits - 1) / splits);
}

namespace {

constexpr double kLog2E = 1.4426950408889634;

bool divides(int64_t number, int64_t by) {
  return number % by == 0;
}

bool is_aligned(const void* pointer, uintptr_t to) {
  return reinterpret_cast<uintptr_t>(pointer) % to == 0;
}

Pool make_pool(const flashmla_sparse_kv& kv) {
  const RecordLayout layout = record_layout(kv.format);
  Pool pool{};
  pool.base = static_cast<const uint8_t*>(kv.pool);
  pool.page_stride = kv.page_stride_bytes;
  pool.num_slots = kv.num_pages * kv.page_size;
  pool.row_stride = layout.data_bytes;
  pool.scale_offset = int64_t{kv.page_size} * layout.data_bytes;
  pool.page_size = Divisor::of(kv.page_size);
  pool.aligned = is_aligned(kv.pool, 16) && divides(kv.page_stride_bytes, 16);
  return pool;
}

Selection make_selection(const flashmla_sparse_kv& kv) {
  Selection selection{};
  if (kv.pool == nullptr || kv.topk == 0) {
    selection.pool.page_size = Divisor::of(1);
    return selection;
  }
  selection.pool = make_pool(kv);
  selection.indices = kv.indices;
  selection.batch_stride = kv.indices_batch_stride;
  selection.query_stride = kv.indices_query_stride;
  selection.count = kv.topk;
  selection.lengths = kv.topk_length;
  return selection;
}

// The parts that both kinds of call have under the same names.
template <typename Params>
DecodeArguments common(const Params& params) {
  DecodeArguments a{};
  a.q = params.q;
  a.q_stride = {params.q_batch_stride, params.q_token_stride, params.q_head_stride};
  a.out = params.out;
  a.out_stride = {params.out_batch_stride, params.out_token_stride, params.out_head_stride};
  a.lse = params.lse;
  a.lse_stride = {params.lse_batch_stride, params.lse_token_stride, params.lse_head_stride};
  const double scale = static_cast<double>(params.softmax_scale) * kLog2E;
  a.scale_high = static_cast<float>(scale);
  a.scale_low = std::isfinite(a.scale_high) ? static_cast<float>(scale - static_cast<double>(a.scale_high)) : 0.0F;
  a.s_q = params.s_q;
  a.num_heads = params.num_heads;
  const auto rows_aligned = [](const void* pointer, const Rows& stride) {
    return is_aligned(pointer, 16) && divides(stride.batch, 8) && divides(stride.token, 8) && divides(stride.head, 8);
  };
  a.q_aligned = rows_aligned(params.q, a.q_stride);
  a.out_aligned = rows_aligned(params.out, a.out_stride);
  a.rows_per_request = Divisor::of(1);
  set_shards(a, 1, 1, nullptr);
  return a;
}

}  // namespace

DecodeArguments make_arguments(const flashmla_sparse_decode_params& params) {
  DecodeArguments a = common(params);
  a.attn_sink = params.attn_sink;
  a.rows = params.batch * params.s_q;
  a.rows_per_request = Divisor::of(params.s_q);
  a.heads_per_row = params.num_heads;
  a.main = make_selection(params.main);
  a.extra = make_selection(params.extra);
  return a;
}

DecodeArguments make_arguments(const flashmla_dense_decode_params& params) {
  DecodeArguments a = common(params);
  a.rows = params.batch;
  a.causal = params.causal != 0;
  a.heads_per_row = params.s_q * params.num_heads;
  Pool& pool = a.main.pool;
  pool.base = reinterpret_cast<const uint8_t*>(params.kv);
  pool.page_stride = 2 * params.kv_page_stride;
  pool.row_stride = 2 * params.kv_token_stride;
  pool.page_size = Divisor::of(params.page_size);
  pool.aligned = is_aligned(params.kv, 16) && divides(pool.page_stride, 16) && divides(pool.row_stride, 16);
  pool.num_slots = params.num_pages * params.page_size;
  a.main.indices = params.block_table;
  a.main.batch_stride = params.block_table_stride;
  a.main.count = params.max_pages;
  a.main.lengths = params.seq_lens;
  a.extra.pool.page_size = Divisor::of(1);
  return a;
}

}  // namespace flashmla::cuda
