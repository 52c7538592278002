#include "orchestrator/engine/embedded/cuda/gemm.h"

#include "orchestrator/engine/embedded/cuda/skinny.h"

namespace sweep::engine::embedded::cuda {

namespace {

constexpr int64_t kWorkspaceBytes = int64_t{64} << 20;

void check_cublas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(what) + " failed: " + cublasGetStatusString(status));
  }
}

}  // namespace

Gemm::Gemm(cudaStream_t stream) : stream_(stream), workspace_(kWorkspaceBytes) {
  check_cublas(cublasCreate(&handle_), "cublasCreate");
  check_cublas(cublasSetStream(handle_, stream), "cublasSetStream");
  check_cublas(cublasSetWorkspace(handle_, workspace_.get(), workspace_.bytes()), "cublasSetWorkspace");
}

Gemm::~Gemm() {
  if (handle_ != nullptr) cublasDestroy(handle_);
}

void Gemm::multiply(const Product& product) {
  if (is_skinny(product)) return multiply_skinny(product, stream_);
  // cuBLAS has columns first: its C is our result transposed.
  const float one = 1;
  const float zero = 0;
  const auto outputs = static_cast<int>(product.outputs);
  const auto inputs = static_cast<int>(product.inputs);
  const auto rows = static_cast<int>(product.rows);
  const auto groups = static_cast<int>(product.groups);
  void* const to = product.to != nullptr ? static_cast<void*>(product.to) : product.to_bf16;
  const cudaDataType_t type = product.to != nullptr ? CUDA_R_32F : CUDA_R_16BF;
  if (groups == 1) {
    check_cublas(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, outputs, rows, inputs, &one, product.weights,
                              CUDA_R_16BF, inputs, product.from, CUDA_R_16BF, inputs, &zero, to, type, outputs,
                              CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                 "cublasGemmEx");
    return;
  }
  check_cublas(cublasGemmStridedBatchedEx(
                   handle_, CUBLAS_OP_T, CUBLAS_OP_N, outputs, rows, inputs, &one, product.weights, CUDA_R_16BF, inputs,
                   product.outputs * product.inputs, product.from, CUDA_R_16BF, inputs * groups, product.inputs, &zero,
                   to, type, outputs * groups, product.outputs, groups, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
               "cublasGemmStridedBatchedEx");
}

}  // namespace sweep::engine::embedded::cuda
