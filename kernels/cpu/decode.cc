#include "kernels/cpu/decode.h"

#include <algorithm>
#include <cfenv>
#include <new>

#include "kernels/api/variant.h"
#include "kernels/cpu/attend.h"

namespace flashmla::cpu {
namespace {

int32_t divide_up(int64_t value, int64_t by) {
  return static_cast<int32_t>((value + by - 1) / by);
}

int32_t pad_heads(int32_t heads) {
  return divide_up(heads, kHeadMultiple) * kHeadMultiple;
}

// The caller's rounding mode and flush-to-zero bits must not reach the results.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

// How a call is cut into units: a query token each, with all its heads where there are enough query tokens for all
// threads. No cut changes a result.
struct Partition {
  int32_t heads_per_unit;
  int32_t head_units;
  int64_t units;
};

Partition partition(int32_t batch, int32_t s_q, int32_t num_heads, int32_t threads) {
  constexpr int32_t kFewestHeads = 4;  // what the score operation computes at once
  Partition cut{};
  const int64_t rows = int64_t{batch} * s_q;
  cut.heads_per_unit = num_heads;
  if (rows < threads) {
    const int32_t heads = divide_up(num_heads, divide_up(threads, rows));
    cut.heads_per_unit = std::min(num_heads, divide_up(heads, kFewestHeads) * kFewestHeads);
  }
  cut.head_units = divide_up(num_heads, cut.heads_per_unit);
  cut.units = rows * cut.head_units;
  return cut;
}

// Where the tokens of one query token come from: fills `attention` with them.
void add_selection(Attention& attention, const flashmla_sparse_kv& kv, int64_t b, int64_t t) {
  const int32_t count = kv.topk_length != nullptr ? kv.topk_length[b] : kv.topk;
  if (count == 0) return;
  const int32_t* indices = kv.indices + b * kv.indices_batch_stride + t * kv.indices_query_stride;
  for (int32_t i = 0; i < count; ++i) {
    if (indices[i] < 0) continue;
    attention.ops().dequantise(kv.format, record_at(kv, indices[i]), attention.add_token());
  }
}

void add_tokens(Attention& attention, const flashmla_sparse_decode_params& params, int64_t b, int64_t t) {
  add_selection(attention, params.main, b, t);
  if (params.extra.pool != nullptr) add_selection(attention, params.extra, b, t);
}

void add_tokens(Attention& attention, const flashmla_dense_decode_params& params, int64_t b, int64_t t) {
  const int64_t hidden = params.causal != 0 ? params.s_q - 1 - t : 0;
  const int64_t length = params.seq_lens[b] - hidden;
  const int32_t* pages = params.block_table + b * params.block_table_stride;
  for (int64_t position = 0; position < length; ++position) {
    const int64_t page = pages[position / params.page_size];
    const int64_t offset = position % params.page_size;
    const uint16_t* token = params.kv + page * params.kv_page_stride + offset * params.kv_token_stride;
    attention.ops().widen(token, params.d_qk, attention.add_token());
  }
}

const float* sink_of(const flashmla_sparse_decode_params& params) {
  return params.attn_sink;
}
const float* sink_of(const flashmla_dense_decode_params&) {
  return nullptr;
}

template <typename Params>
struct Call {
  const Params* params;
  const TileOps* ops;
  Partition cut;
  size_t scratch_bytes;
};

template <typename Params>
void run_unit(void* argument, int64_t unit, int32_t thread) {
  const auto& call = *static_cast<const Call<Params>*>(argument);
  const Params& params = *call.params;
  const DefaultFloatEnvironment environment;
  const int32_t head = static_cast<int32_t>(unit % call.cut.head_units) * call.cut.heads_per_unit;
  const int64_t row = unit / call.cut.head_units;
  const int64_t b = row / params.s_q;
  const int64_t t = row % params.s_q;
  const int32_t heads = std::min(call.cut.heads_per_unit, params.num_heads - head);

  QueryRows query{};
  query.heads = heads;
  query.padded_heads = pad_heads(heads);
  query.q_head_stride = params.q_head_stride;
  query.d_qk = params.d_qk;
  query.attn_sink = sink_of(params) != nullptr ? sink_of(params) + head : nullptr;
  query.softmax_scale = params.softmax_scale;
  query.out_head_stride = params.out_head_stride;
  query.lse_head_stride = params.lse_head_stride;
  void* scratch = static_cast<uint8_t*>(params.workspace) + static_cast<size_t>(thread) * call.scratch_bytes;
  query.q = params.q + b * params.q_batch_stride + t * params.q_token_stride + head * params.q_head_stride;
  query.out = params.out + b * params.out_batch_stride + t * params.out_token_stride + head * params.out_head_stride;
  query.lse = params.lse + b * params.lse_batch_stride + t * params.lse_token_stride + head * params.lse_head_stride;
  Attention attention(scratch, query, *call.ops);
  add_tokens(attention, params, b, t);
  attention.end();
}

template <typename Params>
void decode(const Params& params, const TileOps& ops, WorkerPool& pool) {
  if (params.batch == 0) return;
  Call<Params> call{&params, &ops, partition(params.batch, params.s_q, params.num_heads, pool.size()),
                    Attention::scratch_bytes(pad_heads(params.num_heads), params.d_qk)};
  pool.run(call.cut.units, run_unit<Params>, &call);
}

}  // namespace

size_t decode_workspace(int32_t threads, int32_t num_heads, int32_t d_qk) {
  return static_cast<size_t>(threads) * Attention::scratch_bytes(pad_heads(num_heads), d_qk);
}

void sparse_decode(const flashmla_sparse_decode_params& params, const TileOps& ops, WorkerPool& pool) {
  decode(params, ops, pool);
}

void dense_decode(const flashmla_dense_decode_params& params, const TileOps& ops, WorkerPool& pool) {
  decode(params, ops, pool);
}

}  // namespace flashmla::cpu
