#include "orchestrator/engine/embedded/cuda/attention.h"

namespace sweep::engine::embedded::cuda {

Attention::Attention(const KernelFunctions& kernels, int device) : kernels_(kernels) {
  flashmla_options options = {};
  options.device = device;
  check_call(kernels_.context_create(&options, &context_), "flashmla_context_create");
}

Attention::~Attention() {
  if (context_ != nullptr) kernels_.context_destroy(context_);
}

void Attention::check_call(flashmla_status status, const char* call) const {
  if (status == FLASHMLA_OK) return;
  std::string text = std::string(call) + " failed: " + kernels_.status_text(status);
  if (context_ != nullptr) text += std::string(": ") + kernels_.error_message(context_);
  throw std::runtime_error(text);
}

bool Attention::reserve(const flashmla_sparse_decode_params& params) {
  size_t bytes = 0;
  check_call(kernels_.workspace_size(context_, &params, &bytes), "flashmla_sparse_decode_workspace");
  if (bytes <= workspace_.bytes()) return false;
  const bool had_some = workspace_.size() > 0;
  workspace_ = DeviceArray<uint8_t>();
  workspace_ = DeviceArray<uint8_t>(static_cast<int64_t>(bytes));
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return had_some;
}

void Attention::decode(flashmla_sparse_decode_params params, cudaStream_t stream) {
  params.workspace = workspace_.get();
  params.workspace_bytes = workspace_.bytes();
  params.stream = stream;
  check_call(kernels_.decode(context_, &params), "flashmla_sparse_decode");
}

}  // namespace sweep::engine::embedded::cuda
