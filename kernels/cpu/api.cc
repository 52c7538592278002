// The C API of the CPU libraries.
#include <algorithm>
#include <new>
#include <system_error>
#include <thread>

#include "flashmla/flashmla.h"
#include "kernels/api/check.h"
#include "kernels/api/entry.h"
#include "kernels/api/variant.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/values.h"

#define FLASHMLA_TEXT_OF(value) #value
#define FLASHMLA_TEXT(value) FLASHMLA_TEXT_OF(value)

struct flashmla_context {
  explicit flashmla_context(int32_t threads) : pool(threads) {}
  flashmla::cpu::WorkerPool pool;
  flashmla::ErrorText error;
};

namespace {

constexpr int32_t kMaxThreads = 1024;

#if defined(__clang__)
constexpr const char* kCompiler =
    "clang " FLASHMLA_TEXT(__clang_major__) "." FLASHMLA_TEXT(__clang_minor__) "." FLASHMLA_TEXT(__clang_patchlevel__);
#elif defined(__GNUC__)
constexpr const char* kCompiler =
    "gcc " FLASHMLA_TEXT(__GNUC__) "." FLASHMLA_TEXT(__GNUC_MINOR__) "." FLASHMLA_TEXT(__GNUC_PATCHLEVEL__);
#else
constexpr const char* kCompiler = "unknown";
#endif

}  // namespace

const flashmla_build* flashmla_build_info(void) {
  static const flashmla_build build = {FLASHMLA_ABI_VERSION, "cpu", flashmla::kVariantName,
                                       flashmla::cpu::tile_ops().isa, kCompiler};
  return &build;
}

flashmla_status flashmla_context_create(const flashmla_options* options, flashmla_context** context) {
  if (context == nullptr) return FLASHMLA_INVALID_ARGUMENT;
  *context = nullptr;
  int32_t threads = options != nullptr ? options->num_threads : 0;
  if (threads < 0 || threads > kMaxThreads) return FLASHMLA_INVALID_ARGUMENT;
  // glibc answers with the processors of the affinity mask, which is what this process may use.
  if (threads == 0) threads = static_cast<int32_t>(std::clamp(std::thread::hardware_concurrency(), 1U, 1024U));
  try {
    *context = new flashmla_context(threads);
  } catch (const std::bad_alloc&) {
    return FLASHMLA_DEVICE_ERROR;
  } catch (const std::system_error&) {
    return FLASHMLA_DEVICE_ERROR;
  }
  return FLASHMLA_OK;
}

void flashmla_context_destroy(flashmla_context* context) {
  delete context;
}

flashmla_status flashmla_sparse_decode_workspace(flashmla_context* context, const flashmla_sparse_decode_params* params,
                                                 size_t* bytes) {
  flashmla_status status = flashmla::begin_workspace_call(context, params, bytes);
  if (status == FLASHMLA_OK) status = flashmla::check_sparse_shape(*params, context->error);
  if (status != FLASHMLA_OK) return status;
  *bytes = flashmla::cpu::decode_workspace(context->pool.size(), params->num_heads, params->d_qk);
  return FLASHMLA_OK;
}

flashmla_status flashmla_sparse_decode(flashmla_context* context, const flashmla_sparse_decode_params* params) {
  flashmla_status status = flashmla::begin_call(context, params);
  if (status != FLASHMLA_OK) return status;
  flashmla::ErrorText& error = context->error;
  status = flashmla::check_sparse_decode(*params, error);
  if (status != FLASHMLA_OK || params->batch == 0) return status;
  const size_t needed = flashmla::cpu::decode_workspace(context->pool.size(), params->num_heads, params->d_qk);
  status = flashmla::check_workspace(params->workspace, params->workspace_bytes, needed, error);
  if (status == FLASHMLA_OK) status = flashmla::cpu::check_sparse_values(*params, error);
  if (status == FLASHMLA_OK) flashmla::cpu::sparse_decode(*params, flashmla::cpu::tile_ops(), context->pool);
  return status;
}

flashmla_status flashmla_dense_decode_workspace(flashmla_context* context, const flashmla_dense_decode_params* params,
                                                size_t* bytes) {
  flashmla_status status = flashmla::begin_workspace_call(context, params, bytes);
  if (status == FLASHMLA_OK) status = flashmla::check_dense_shape(*params, context->error);
  if (status != FLASHMLA_OK) return status;
  *bytes = flashmla::cpu::decode_workspace(context->pool.size(), params->num_heads, params->d_qk);
  return FLASHMLA_OK;
}

flashmla_status flashmla_dense_decode(flashmla_context* context, const flashmla_dense_decode_params* params) {
  flashmla_status status = flashmla::begin_call(context, params);
  if (status != FLASHMLA_OK) return status;
  flashmla::ErrorText& error = context->error;
  status = flashmla::check_dense_decode(*params, error);
  if (status != FLASHMLA_OK || params->batch == 0) return status;
  const size_t needed = flashmla::cpu::decode_workspace(context->pool.size(), params->num_heads, params->d_qk);
  status = flashmla::check_workspace(params->workspace, params->workspace_bytes, needed, error);
  if (status == FLASHMLA_OK) status = flashmla::cpu::check_dense_values(*params, error);
  if (status == FLASHMLA_OK) flashmla::cpu::dense_decode(*params, flashmla::cpu::tile_ops(), context->pool);
  return status;
}

const char* flashmla_error_message(const flashmla_context* context) {
  return context != nullptr ? context->error.text() : "the context is null";
}
