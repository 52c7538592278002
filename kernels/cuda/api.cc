// The C API of the CUDA libraries.
#include <cuda_runtime_api.h>

#include <new>

#include "flashmla/flashmla.h"
#include "kernels/api/check.h"
#include "kernels/api/variant.h"

struct flashmla_context {
  flashmla::ErrorText error;
};

const flashmla_build* flashmla_build_info(void) {
  static const flashmla_build build = {FLASHMLA_ABI_VERSION, FLASHMLA_ARCH_NAME, flashmla::kVariantName, "",
                                       "nvcc " FLASHMLA_NVCC_VERSION};
  return &build;
}

flashmla_status flashmla_context_create(const flashmla_options* options, flashmla_context** context) {
  if (context == nullptr) return FLASHMLA_INVALID_ARGUMENT;
  *context = nullptr;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return FLASHMLA_DEVICE_ERROR;
  if (options != nullptr && (options->device < 0 || options->device >= devices)) return FLASHMLA_INVALID_ARGUMENT;
  *context = new (std::nothrow) flashmla_context;
  return *context != nullptr ? FLASHMLA_OK : FLASHMLA_DEVICE_ERROR;
}

void flashmla_context_destroy(flashmla_context* context) {
  delete context;
}

flashmla_status flashmla_sparse_decode_workspace(flashmla_context*, const flashmla_sparse_decode_params*, size_t*) {
  return FLASHMLA_UNSUPPORTED;
}

flashmla_status flashmla_sparse_decode(flashmla_context*, const flashmla_sparse_decode_params*) {
  return FLASHMLA_UNSUPPORTED;
}

flashmla_status flashmla_dense_decode_workspace(flashmla_context*, const flashmla_dense_decode_params*, size_t*) {
  return FLASHMLA_UNSUPPORTED;
}

flashmla_status flashmla_dense_decode(flashmla_context*, const flashmla_dense_decode_params*) {
  return FLASHMLA_UNSUPPORTED;
}

const char* flashmla_error_message(const flashmla_context* context) {
  return context != nullptr ? context->error.text() : "the context is null";
}

const char* flashmla_status_text(flashmla_status) {
  return "unsupported";
}
