// The kernel library with one fault, named by the environment variable FLASHMLA_BROKEN. "refuses-valid" can be told
// from which sparse call on a context it begins (FLASHMLA_BROKEN_AFTER calls are good) and on which device it strikes
// (FLASHMLA_BROKEN_DEVICE). FLASHMLA_BROKEN_LIBRARY names the library that is to break.
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <string_view>

#include "flashmla/flashmla.h"

namespace {

template <typename Function>
Function real(const char* name) {
  static const char* const named = std::getenv("FLASHMLA_BROKEN_LIBRARY");
  static void* const library = dlopen(named != nullptr ? named : FLASHMLA_REAL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::abort();
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) std::abort();
  return reinterpret_cast<Function>(symbol);
}

bool fault_is(std::string_view name) {
  const char* fault = std::getenv("FLASHMLA_BROKEN");
  return fault != nullptr && name == fault;
}

struct Calls {
  int device = 0;
  int64_t sparse = 0;
};
std::mutex calls_mutex;
std::map<const flashmla_context*, Calls>& calls_of_contexts() {
  static std::map<const flashmla_context*, Calls> all;
  return all;
}

bool strikes(const flashmla_context* context) {
  const std::lock_guard lock(calls_mutex);
  Calls& calls = calls_of_contexts()[context];
  const char* after = std::getenv("FLASHMLA_BROKEN_AFTER");
  const char* device = std::getenv("FLASHMLA_BROKEN_DEVICE");
  return ++calls.sparse > (after != nullptr ? std::atoll(after) : 0) &&
         (device == nullptr || std::atoi(device) == calls.device);
}

// The fault strikes calls of more than one head only, in their last head.
template <typename Params>
void corrupt(const Params& p) {
  if (p.batch < 1 || p.num_heads < 2) return;
  const int64_t b = p.batch - 1;
  const int64_t t = p.s_q - 1;
  const int64_t h = p.num_heads - 1;
  uint16_t* out = p.out + b * p.out_batch_stride + t * p.out_token_stride + h * p.out_head_stride;
  float* lse = p.lse + b * p.lse_batch_stride + t * p.lse_token_stride + h * p.lse_head_stride;
  static unsigned calls = 0;
  if (fault_is("lse") && std::isfinite(*lse)) *lse += 1e-3F;
  if (fault_is("output")) out[511] = static_cast<uint16_t>(out[511] + 2);
  if (fault_is("nan")) out[0] = 0x7fc0;
  if (fault_is("one-ulp") && std::isfinite(*lse)) *lse = std::nextafterf(*lse, 1e30F);
  if (fault_is("not-repeatable") && std::isfinite(*lse) && ++calls % 2 == 0) *lse = std::nextafterf(*lse, 1e30F);
  if (fault_is("tenth-run") && std::isfinite(*lse) && ++calls == 10) *lse = std::nextafterf(*lse, 1e30F);
  if (fault_is("guard")) out[-1] = 0;
}

}  // namespace

const flashmla_build* flashmla_build_info() {
  static flashmla_build build = *real<decltype(&flashmla_build_info)>("flashmla_build_info")();
  if (fault_is("abi")) build.abi_version = FLASHMLA_ABI_VERSION + 1;
  return &build;
}

flashmla_status flashmla_context_create(const flashmla_options* options, flashmla_context** context) {
  const auto status = real<decltype(&flashmla_context_create)>("flashmla_context_create")(options, context);
  const std::lock_guard lock(calls_mutex);
  if (status == FLASHMLA_OK) calls_of_contexts()[*context] = {options != nullptr ? options->device : 0, 0};
  return status;
}

void flashmla_context_destroy(flashmla_context* context) {
  real<decltype(&flashmla_context_destroy)>("flashmla_context_destroy")(context);
}

flashmla_status flashmla_sparse_decode_workspace(flashmla_context* context, const flashmla_sparse_decode_params* params,
                                                 size_t* bytes) {
  return real<decltype(&flashmla_sparse_decode_workspace)>("flashmla_sparse_decode_workspace")(context, params, bytes);
}

flashmla_status flashmla_sparse_decode(flashmla_context* context, const flashmla_sparse_decode_params* params) {
  const flashmla_status status = real<decltype(&flashmla_sparse_decode)>("flashmla_sparse_decode")(context, params);
  if (fault_is("refuses-valid") && status == FLASHMLA_OK && strikes(context)) return FLASHMLA_UNSUPPORTED;
  if (fault_is("accepts-any-index") && status == FLASHMLA_INVALID_ARGUMENT) return FLASHMLA_OK;
  if (fault_is("accepts-invalid") && status == FLASHMLA_WORKSPACE_TOO_SMALL) return FLASHMLA_OK;
  if (fault_is("writes-when-refusing") && status == FLASHMLA_INVALID_ARGUMENT && params != nullptr &&
      params->out != nullptr) {
    params->out[0] = 0;
  }
  if (status == FLASHMLA_OK) corrupt(*params);
  return status;
}

flashmla_status flashmla_dense_decode_workspace(flashmla_context* context, const flashmla_dense_decode_params* params,
                                                size_t* bytes) {
  return real<decltype(&flashmla_dense_decode_workspace)>("flashmla_dense_decode_workspace")(context, params, bytes);
}

flashmla_status flashmla_dense_decode(flashmla_context* context, const flashmla_dense_decode_params* params) {
  const flashmla_status status = real<decltype(&flashmla_dense_decode)>("flashmla_dense_decode")(context, params);
  if (fault_is("dense-lse") && status == FLASHMLA_OK && params->batch > 0) params->lse[0] = 123.0F;
  return status;
}

const char* flashmla_error_message(const flashmla_context* context) {
  if (fault_is("no-message")) return "";
  return real<decltype(&flashmla_error_message)>("flashmla_error_message")(context);
}

const char* flashmla_status_text(flashmla_status status) {
  return real<decltype(&flashmla_status_text)>("flashmla_status_text")(status);
}
