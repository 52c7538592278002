#include "kernels/cpu/values.h"

#include <algorithm>

namespace flashmla::cpu {
namespace {

// Position of the first index that is neither -1 nor a slot of the pool, or `count`.
int32_t find_bad_index(const int32_t* indices, int32_t count, int64_t slots) {
  int32_t lowest = 0;
  int32_t highest = -1;
  for (int32_t i = 0; i < count; ++i) {
    lowest = std::min(lowest, indices[i]);
    highest = std::max(highest, indices[i]);
  }
  if (lowest >= -1 && highest < slots) return count;
  for (int32_t i = 0; i < count; ++i) {
    if (indices[i] < -1 || indices[i] >= slots) return i;
  }
  return count;
}

flashmla_status check_cache(const char* name, const flashmla_sparse_kv& kv, int32_t batch, int32_t s_q,
                            ErrorText& error) {
  int64_t slots = 0;
  if (__builtin_mul_overflow(kv.num_pages, int64_t{kv.page_size}, &slots)) slots = INT64_MAX;
  for (int32_t b = 0; b < batch; ++b) {
    int32_t count = kv.topk;
    if (kv.topk_length != nullptr) {
      count = kv.topk_length[b];
      if (count < 0 || count > kv.topk) {
        return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s.topk_length[%d]\" is %d, expected 0 to topk = %d", name, b,
                         count, kv.topk);
      }
    }
    for (int32_t t = 0; t < s_q; ++t) {
      if (count == 0) break;
      const int32_t* indices = kv.indices + b * kv.indices_batch_stride + t * kv.indices_query_stride;
      const int32_t bad = find_bad_index(indices, count, slots);
      if (bad < count) {
        return error.set(FLASHMLA_INVALID_ARGUMENT,
                         "\"%s.indices[%d, %d, %d]\" is %d, expected -1 or a slot below %lld", name, b, t, bad,
                         indices[bad], static_cast<long long>(slots));
      }
    }
  }
  return FLASHMLA_OK;
}

}  // namespace

flashmla_status check_sparse_values(const flashmla_sparse_decode_params& params, ErrorText& error) {
  const flashmla_status status = check_cache("main", params.main, params.batch, params.s_q, error);
  if (status != FLASHMLA_OK || params.extra.pool == nullptr) return status;
  return check_cache("extra", params.extra, params.batch, params.s_q, error);
}

flashmla_status check_dense_values(const flashmla_dense_decode_params& params, ErrorText& error) {
  const int64_t longest = int64_t{params.max_pages} * params.page_size;
  for (int32_t b = 0; b < params.batch; ++b) {
    const int64_t length = params.seq_lens[b];
    if (length < 0 || length > longest) {
      return error.set(FLASHMLA_INVALID_ARGUMENT,
                       "\"seq_lens[%d]\" is %lld, expected 0 to max_pages * page_size = %lld", b,
                       static_cast<long long>(length), static_cast<long long>(longest));
    }
    const int64_t pages = (length + params.page_size - 1) / params.page_size;
    for (int64_t i = 0; i < pages; ++i) {
      const int32_t page = params.block_table[b * params.block_table_stride + i];
      if (page < 0 || page >= params.num_pages) {
        return error.set(FLASHMLA_INVALID_ARGUMENT, "\"block_table[%d, %lld]\" is %d, expected 0 to %lld", b,
                         static_cast<long long>(i), page, static_cast<long long>(params.num_pages - 1));
      }
    }
  }
  return FLASHMLA_OK;
}

}  // namespace flashmla::cpu
