// The FlashMLA kernels: a shared library with the C API of kernels/include/flashmla/flashmla.h, loaded by path.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "flashmla/flashmla.h"
#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/cuda/device_model.h"

namespace sweep::engine::embedded {

class KernelLibrary {
 public:
  struct Options {
    std::filesystem::path path;
    int threads = 0;  // of CPU builds; 0: all this process may use
  };

  // Hashes the file, loads it and checks its ABI version. A build for the CPU gets its context here; those of builds
  // for CUDA belong to devices and are made by whoever calls functions().
  static diag::Result<KernelLibrary> load(const Options& options);

  KernelLibrary(KernelLibrary&&) noexcept;
  KernelLibrary& operator=(KernelLibrary&&) noexcept;
  ~KernelLibrary();

  const std::string& path() const;    // absolute
  const std::string& sha256() const;  // of the file that was loaded
  const flashmla_build& build() const;
  bool is_cuda() const;
  cuda::KernelFunctions functions() const;

  // A build for the CPU: fills in the workspace and calls flashmla_sparse_decode. One thread at a time.
  diag::Result<diag::Done> sparse_decode(flashmla_sparse_decode_params params);

 private:
  struct State;
  explicit KernelLibrary(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sweep::engine::embedded
