/*
 * FlashMLA decode kernels: the C API. Free of frameworks; compiles as C11 and C++.
 *
 * One context owns what outlives a call (CPU worker threads; device properties). A call allocates nothing: scratch
 * memory comes from the caller as `workspace`. Results depend only on the arguments: the same call gives the same bytes
 * for any number of threads and on every repetition (on one machine and one build).
 *
 * Terms. A *slot* is the place of one token in a paged pool: slot = page * page_size + offset. A *record* is the
 * quantised bytes of one token. LSE is the natural logarithm of the sum of exp(scaled scores) over the selected tokens;
 * it does not include the attention sink.
 */
#ifndef FLASHMLA_FLASHMLA_H
#define FLASHMLA_FLASHMLA_H

/* NOLINTBEGIN(readability-identifier-naming): a C header, with a C library's names */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FLASHMLA_API __attribute__((visibility("default")))
#else
#define FLASHMLA_API
#endif

#define FLASHMLA_ABI_VERSION 1

enum { FLASHMLA_MAX_HEADS = 128, FLASHMLA_MAX_QUERY_TOKENS = 16 };

typedef enum flashmla_status {
  FLASHMLA_OK = 0,
  FLASHMLA_INVALID_ARGUMENT = 1, /* a pointer, shape, stride or range is wrong; flashmla_error_message() says which */
  FLASHMLA_UNSUPPORTED = 2,      /* well-formed, but this build cannot do it */
  FLASHMLA_WORKSPACE_TOO_SMALL = 3, /* less than flashmla_*_workspace() asked for */
  FLASHMLA_DEVICE_ERROR = 4         /* the device or its runtime failed */
} flashmla_status;

/*
 * Records of the quantised KV caches (E4M3 = FP8 with 4 exponent bits; UE8M0 = a power of two in one byte).
 *
 *   V4_584       d_qk 512, d_v 512. 448 x E4M3, 64 x BF16 (RoPE), then per token 7 x UE8M0 (one per 64) + 1 pad byte.
 *                In a page: page_size x 576 data bytes, then page_size x 8 scale bytes.
 *   V32_656      d_qk 576, d_v 512. 512 x E4M3, 4 x FP32 scales (one per 128, any value), 64 x BF16 (RoPE). In a page:
 *                all fields of a token together.
 *   V41_528      d_qk 512, d_v 512. 512 x E4M3 (RoPE included), 16 x UE8M0 (one per 32). In a page: page_size x 512
 *                data bytes, then page_size x 16 scale bytes.
 *   V41_FP4_288  d_qk 512, d_v 512. 256 B packed E2M1 (512 values, even index in the low nibble), 32 x E4M3 scales (one
 *                per 16). In a page: page_size x 256 data bytes, then page_size x 32 scale bytes.
 *
 * V is the first 512 dimensions of the key (V32: of the 576; V4, V4.1: all 512, RoPE part included).
 */
typedef enum flashmla_kv_format {
  FLASHMLA_KV_V4_584 = 0,
  FLASHMLA_KV_V32_656 = 1,
  FLASHMLA_KV_V41_528 = 2,
  FLASHMLA_KV_V41_FP4_288 = 3
} flashmla_kv_format;

/* A selection of tokens from a paged pool of quantised records. */
typedef struct flashmla_sparse_kv {
  const void* pool; /* [num_pages] pages, `page_stride_bytes` apart; NULL = this cache is not used */
  int64_t num_pages;
  int64_t page_stride_bytes; /* at least the bytes of one page; upstream pads V4 pages to a multiple of 576 */
  int32_t page_size;         /* tokens per page, > 0 */
  flashmla_kv_format format;
  const int32_t* indices; /* [batch, s_q, topk] slots; -1 = no token; strides below, in elements */
  int64_t indices_batch_stride;
  int64_t indices_query_stride;
  int32_t topk;               /* >= 0 */
  const int32_t* topk_length; /* [batch]: only the first topk_length[b] indices count; NULL = all topk */
} flashmla_sparse_kv;

typedef struct flashmla_sparse_decode_params {
  int32_t batch;     /* >= 0 */
  int32_t s_q;       /* query tokens per request, 1..16 */
  int32_t num_heads; /* query heads, 1..128, no padding needed */
  int32_t d_qk;      /* 512 or 576, as the record format says */
  int32_t d_v;       /* 512 */

  const uint16_t* q; /* BF16 [batch, s_q, num_heads, d_qk]; strides in elements, the last dimension is contiguous */
  int64_t q_batch_stride, q_token_stride, q_head_stride;

  flashmla_sparse_kv main;  /* must be used (pool not NULL), though topk may be 0 */
  flashmla_sparse_kv extra; /* optional second cache, attended together with main under one softmax */

  const float* attn_sink; /* [num_heads] logits that join the softmax denominator only; NULL = none. -inf: no effect;
                             +inf: output 0 */
  float softmax_scale;    /* multiplies q.k; finite */

  uint16_t* out; /* BF16 [batch, s_q, num_heads, d_v]; strides in elements, the last dimension is contiguous */
  int64_t out_batch_stride, out_token_stride, out_head_stride;

  float* lse; /* FP32 [batch, s_q, num_heads]; strides in elements. A row without any token: out 0, lse +inf */
  int64_t lse_batch_stride, lse_token_stride, lse_head_stride;

  void* workspace; /* at least flashmla_sparse_decode_workspace() bytes, 64-byte aligned; may be NULL if that is 0 */
  size_t workspace_bytes;
  void* stream; /* cudaStream_t on CUDA builds; ignored on the CPU */
} flashmla_sparse_decode_params;

/* Dense decode on a paged BF16 cache. */
typedef struct flashmla_dense_decode_params {
  int32_t batch, s_q, num_heads;
  int32_t d_qk; /* 576 or 512 */
  int32_t d_v;  /* 512; V is the first d_v dimensions of the key */

  const uint16_t* q; /* BF16 [batch, s_q, num_heads, d_qk] */
  int64_t q_batch_stride, q_token_stride, q_head_stride;

  const uint16_t* kv; /* BF16 [num_pages, page_size, d_qk]; strides in elements */
  int64_t num_pages, kv_page_stride, kv_token_stride;
  int32_t page_size;
  const int32_t* block_table; /* [batch, max_pages] page numbers */
  int64_t block_table_stride;
  int32_t max_pages;       /* entries in one row of block_table */
  const int32_t* seq_lens; /* [batch] tokens in the cache, the s_q query tokens included */
  int32_t causal;          /* not 0: query token i of s_q sees seq_len - (s_q - 1 - i) tokens */

  float softmax_scale;

  uint16_t* out; /* BF16 [batch, s_q, num_heads, d_v] */
  int64_t out_batch_stride, out_token_stride, out_head_stride;
  float* lse; /* FP32 [batch, s_q, num_heads] */
  int64_t lse_batch_stride, lse_token_stride, lse_head_stride;

  void* workspace;
  size_t workspace_bytes;
  void* stream;
} flashmla_dense_decode_params;

typedef struct flashmla_options {
  int32_t num_threads; /* CPU builds: worker threads; 0 = all this process may use */
  int32_t device;      /* CUDA builds: device ordinal */
} flashmla_options;

/* What was built. All texts are static. */
typedef struct flashmla_build {
  int32_t abi_version;  /* FLASHMLA_ABI_VERSION of the build */
  const char* arch;     /* "cpu", "sm_90a", ... */
  const char* variant;  /* "native" or "padded64" (heads padded to a multiple of 64: the baseline of the gate) */
  const char* isa;      /* CPU builds: the instruction set chosen on this machine, "avx512", "avx2" or "generic" */
  const char* compiler; /* name and version of the compiler */
} flashmla_build;

typedef struct flashmla_context flashmla_context;

FLASHMLA_API const flashmla_build* flashmla_build_info(void);

/* NULL options = defaults. The context may be used by one thread at a time. */
FLASHMLA_API flashmla_status flashmla_context_create(const flashmla_options* options, flashmla_context** context);
FLASHMLA_API void flashmla_context_destroy(flashmla_context* context);

/* Scratch bytes that the call with these shapes needs; reads no pointer of `params` but the two caches' topk fields. */
FLASHMLA_API flashmla_status flashmla_sparse_decode_workspace(flashmla_context* context,
                                                              const flashmla_sparse_decode_params* params,
                                                              size_t* bytes);
/*
 * out = softmax(scale * q k^T, sink) v over the selected tokens of both caches, and its LSE.
 * An index outside the pool other than -1 is FLASHMLA_INVALID_ARGUMENT on CPU builds; CUDA builds treat it as -1.
 * Slots that are not selected are never read as numbers: NaN there cannot reach a result.
 */
FLASHMLA_API flashmla_status flashmla_sparse_decode(flashmla_context* context,
                                                    const flashmla_sparse_decode_params* params);

FLASHMLA_API flashmla_status flashmla_dense_decode_workspace(flashmla_context* context,
                                                             const flashmla_dense_decode_params* params, size_t* bytes);
FLASHMLA_API flashmla_status flashmla_dense_decode(flashmla_context* context,
                                                   const flashmla_dense_decode_params* params);

/* Why the last call on this context failed; empty after a success. Valid until the next call on it. */
FLASHMLA_API const char* flashmla_error_message(const flashmla_context* context);
FLASHMLA_API const char* flashmla_status_text(flashmla_status status);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif /* FLASHMLA_FLASHMLA_H */
