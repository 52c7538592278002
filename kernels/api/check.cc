#include "kernels/api/check.h"

#include <cmath>
#include <utility>

#include "kernels/api/layout.h"

namespace flashmla {
namespace {

bool is_aligned(const void* pointer, size_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

struct Extent {
  int64_t count;
  int64_t stride;
};

// True if no two elements of [a][b][c][inner] share a place. Outputs need it: two threads may write any two rows.
bool is_injective(Extent a, Extent b, Extent c, int64_t inner) {
  Extent axes[3] = {a, b, c};
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < 2; ++i) {
      if (axes[i].stride > axes[i + 1].stride) std::swap(axes[i], axes[i + 1]);
    }
  }
  int64_t span = inner;
  for (const Extent& axis : axes) {
    if (axis.count <= 1) continue;
    if (axis.stride < span) return false;
    if (__builtin_mul_overflow(axis.count, axis.stride, &span)) return false;
  }
  return true;
}

struct RowTensor {
  const char* name;
  const void* data;
  size_t element_bytes;
  int64_t inner;
  int64_t batch_stride, token_stride, head_stride;
};

struct RowShape {
  int32_t batch, s_q, num_heads;
};

flashmla_status check_tensor(const RowTensor& tensor, const RowShape& shape, bool is_output, ErrorText& error) {
  if (shape.batch == 0) return FLASHMLA_OK;
  if (tensor.data == nullptr) return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s\" is null", tensor.name);
  if (!is_aligned(tensor.data, tensor.element_bytes)) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s\" is not aligned to its %zu-byte elements", tensor.name,
                     tensor.element_bytes);
  }
  if (tensor.batch_stride < 0 || tensor.token_stride < 0 || tensor.head_stride < 0) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s\" has a negative stride", tensor.name);
  }
  if (is_output && !is_injective({shape.batch, tensor.batch_stride}, {shape.s_q, tensor.token_stride},
                                 {shape.num_heads, tensor.head_stride}, tensor.inner)) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "the strides of \"%s\" make its rows overlap", tensor.name);
  }
  return FLASHMLA_OK;
}

flashmla_status check_row_shape(const RowShape& shape, ErrorText& error) {
  if (shape.batch < 0) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"batch\" is %d, expected 0 or more", shape.batch);
  }
  if (shape.s_q < 1 || shape.s_q > FLASHMLA_MAX_QUERY_TOKENS) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"s_q\" is %d, expected 1 to %d", shape.s_q,
                     FLASHMLA_MAX_QUERY_TOKENS);
  }
  if (shape.num_heads < 1 || shape.num_heads > FLASHMLA_MAX_HEADS) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"num_heads\" is %d, expected 1 to %d", shape.num_heads,
                     FLASHMLA_MAX_HEADS);
  }
  return FLASHMLA_OK;
}

flashmla_status check_scale(float softmax_scale, ErrorText& error) {
  if (!std::isfinite(softmax_scale)) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"softmax_scale\" is not finite");
  }
  return FLASHMLA_OK;
}

flashmla_status check_format(const char* name, const flashmla_sparse_kv& kv, int32_t d_qk, ErrorText& error) {
  const int32_t number = format_number(kv);
  if (!is_known_format(number)) {
    return error.set(FLASHMLA_UNSUPPORTED, "\"%s.format\" is %d, which is no known record format", name, number);
  }
  const int32_t expected = record_layout(kv.format).d_qk;
  if (d_qk != expected) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"d_qk\" is %d, but the records of \"%s\" have %d dimensions", d_qk,
                     name, expected);
  }
  return FLASHMLA_OK;
}

flashmla_status check_cache(const char* name, const flashmla_sparse_kv& kv, int32_t batch, ErrorText& error) {
  if (kv.page_size < 1) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s.page_size\" is %d, expected 1 or more", name, kv.page_size);
  }
  const int64_t needed = page_bytes(kv.format, kv.page_size);
  if (kv.page_stride_bytes < needed) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s.page_stride_bytes\" is %lld, less than the %lld bytes of a page",
                     name, static_cast<long long>(kv.page_stride_bytes), static_cast<long long>(needed));
  }
  int64_t pool_bytes = 0;
  if (kv.num_pages < 0 || __builtin_mul_overflow(kv.num_pages, kv.page_stride_bytes, &pool_bytes)) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s.num_pages\" is %lld, which is out of range", name,
                     static_cast<long long>(kv.num_pages));
  }
  if (kv.topk < 0) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s.topk\" is %d, expected 0 or more", name, kv.topk);
  }
  if (kv.topk == 0 || batch == 0) return FLASHMLA_OK;
  if (kv.indices == nullptr) return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s.indices\" is null", name);
  if (!is_aligned(kv.indices, alignof(int32_t))) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s.indices\" is not aligned to 4 bytes", name);
  }
  if (kv.indices_batch_stride < 0 || kv.indices_query_stride < 0) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s.indices\" has a negative stride", name);
  }
  if (!is_aligned(kv.topk_length, alignof(int32_t))) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"%s.topk_length\" is not aligned to 4 bytes", name);
  }
  return FLASHMLA_OK;
}

template <typename Params>
flashmla_status check_row_tensors(const Params& params, ErrorText& error) {
  const RowShape shape{params.batch, params.s_q, params.num_heads};
  const RowTensor q{"q", params.q, 2, params.d_qk, params.q_batch_stride, params.q_token_stride, params.q_head_stride};
  const RowTensor out{
      "out", params.out, 2, params.d_v, params.out_batch_stride, params.out_token_stride, params.out_head_stride};
  const RowTensor lse{
      "lse", params.lse, 4, 1, params.lse_batch_stride, params.lse_token_stride, params.lse_head_stride};
  flashmla_status status = check_tensor(q, shape, false, error);
  if (status == FLASHMLA_OK) status = check_tensor(out, shape, true, error);
  if (status == FLASHMLA_OK) status = check_tensor(lse, shape, true, error);
  return status;
}

flashmla_status check_value_dims(int32_t d_v, ErrorText& error) {
  if (d_v != kValueDims) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"d_v\" is %d, expected %d", d_v, kValueDims);
  }
  return FLASHMLA_OK;
}

}  // namespace

flashmla_status check_sparse_shape(const flashmla_sparse_decode_params& params, ErrorText& error) {
  const bool has_extra = params.extra.pool != nullptr;
  flashmla_status status = check_format("main", params.main, params.d_qk, error);
  if (status == FLASHMLA_OK && has_extra) status = check_format("extra", params.extra, params.d_qk, error);
  if (status == FLASHMLA_OK) status = check_value_dims(params.d_v, error);
  if (status == FLASHMLA_OK) status = check_row_shape({params.batch, params.s_q, params.num_heads}, error);
  return status;
}

flashmla_status check_sparse_decode(const flashmla_sparse_decode_params& params, ErrorText& error) {
  flashmla_status status = check_sparse_shape(params, error);
  if (status != FLASHMLA_OK) return status;
  if (params.main.pool == nullptr) return error.set(FLASHMLA_INVALID_ARGUMENT, "\"main.pool\" is null");
  status = check_cache("main", params.main, params.batch, error);
  if (status == FLASHMLA_OK && params.extra.pool != nullptr) {
    status = check_cache("extra", params.extra, params.batch, error);
  }
  if (status == FLASHMLA_OK) status = check_row_tensors(params, error);
  if (status == FLASHMLA_OK && !is_aligned(params.attn_sink, alignof(float))) {
    status = error.set(FLASHMLA_INVALID_ARGUMENT, "\"attn_sink\" is not aligned to 4 bytes");
  }
  if (status == FLASHMLA_OK) status = check_scale(params.softmax_scale, error);
  return status;
}

flashmla_status check_dense_shape(const flashmla_dense_decode_params& params, ErrorText& error) {
  if (params.d_qk != kDenseDimsShort && params.d_qk != kDenseDimsLong) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"d_qk\" is %d, expected %d or %d", params.d_qk, kDenseDimsLong,
                     kDenseDimsShort);
  }
  flashmla_status status = check_value_dims(params.d_v, error);
  if (status == FLASHMLA_OK) status = check_row_shape({params.batch, params.s_q, params.num_heads}, error);
  return status;
}

flashmla_status check_dense_decode(const flashmla_dense_decode_params& params, ErrorText& error) {
  flashmla_status status = check_dense_shape(params, error);
  if (status != FLASHMLA_OK) return status;
  if (params.page_size < 1) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"page_size\" is %d, expected 1 or more", params.page_size);
  }
  if (params.num_pages < 0) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"num_pages\" is %lld, expected 0 or more",
                     static_cast<long long>(params.num_pages));
  }
  if (params.max_pages < 0) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"max_pages\" is %d, expected 0 or more", params.max_pages);
  }
  if (params.kv_token_stride < params.d_qk) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"kv_token_stride\" is %lld, less than the %d elements of a token",
                     static_cast<long long>(params.kv_token_stride), params.d_qk);
  }
  int64_t page_elements = 0;
  int64_t pool_elements = 0;
  if (__builtin_mul_overflow(params.kv_token_stride, int64_t{params.page_size}, &page_elements) ||
      params.kv_page_stride < page_elements - (params.kv_token_stride - params.d_qk)) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"kv_page_stride\" is %lld, less than the elements of a page",
                     static_cast<long long>(params.kv_page_stride));
  }
  if (__builtin_mul_overflow(params.num_pages, params.kv_page_stride, &pool_elements)) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"num_pages\" is %lld, which is out of range",
                     static_cast<long long>(params.num_pages));
  }
  if (params.block_table_stride < 0) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"block_table\" has a negative stride");
  }
  if (params.batch > 0) {
    if (params.seq_lens == nullptr) return error.set(FLASHMLA_INVALID_ARGUMENT, "\"seq_lens\" is null");
    if (params.max_pages > 0 && params.block_table == nullptr) {
      return error.set(FLASHMLA_INVALID_ARGUMENT, "\"block_table\" is null");
    }
    if (params.num_pages > 0 && params.kv == nullptr) return error.set(FLASHMLA_INVALID_ARGUMENT, "\"kv\" is null");
    if (!is_aligned(params.kv, alignof(uint16_t)) || !is_aligned(params.block_table, alignof(int32_t)) ||
        !is_aligned(params.seq_lens, alignof(int32_t))) {
      return error.set(FLASHMLA_INVALID_ARGUMENT,
                       "\"kv\", \"block_table\" or \"seq_lens\" is not aligned to its elements");
    }
  }
  status = check_row_tensors(params, error);
  if (status == FLASHMLA_OK) status = check_scale(params.softmax_scale, error);
  return status;
}

flashmla_status check_workspace(const void* workspace, size_t bytes, size_t needed, ErrorText& error) {
  if (needed == 0) return FLASHMLA_OK;
  if (bytes < needed) {
    return error.set(FLASHMLA_WORKSPACE_TOO_SMALL, "\"workspace_bytes\" is %zu, this call needs %zu", bytes, needed);
  }
  if (workspace == nullptr) return error.set(FLASHMLA_INVALID_ARGUMENT, "\"workspace\" is null");
  if (!is_aligned(workspace, kWorkspaceAlignment)) {
    return error.set(FLASHMLA_INVALID_ARGUMENT, "\"workspace\" is not aligned to %d bytes",
                     static_cast<int>(kWorkspaceAlignment));
  }
  return FLASHMLA_OK;
}

}  // namespace flashmla
