// The kernel library on one GPU: a context and the workspace of its calls.
#pragma once

#include <cuda_runtime_api.h>

#include "orchestrator/engine/embedded/cuda/device_model.h"
#include "orchestrator/engine/embedded/cuda/runtime.h"

namespace sweep::engine::embedded::cuda {

class Attention {
 public:
  Attention(const KernelFunctions& kernels, int device);
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  // Makes room for the call with these shapes; true if earlier launches now point to memory that is gone. Nothing may
  // be running.
  bool reserve(const flashmla_sparse_decode_params& params);

  // Launches the call. reserve() has been told its shapes.
  void decode(flashmla_sparse_decode_params params, cudaStream_t stream);

 private:
  void check_call(flashmla_status status, const char* call) const;

  KernelFunctions kernels_;
  flashmla_context* context_ = nullptr;
  DeviceArray<uint8_t> workspace_;
};

}  // namespace sweep::engine::embedded::cuda
