// The compilers of a kernel build. Their versions are part of its content id.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/gate/arch.h"

namespace sweep::gate {

struct Nvcc {
  std::filesystem::path program;
  CudaVersion version;
  std::string text;  // "nvcc 13.0.88 (cuda_13.0.r13.0/compiler.36424714_0)"
};

struct Toolchain {
  std::string compiler;          // program, as CXX or PATH name it
  std::string compiler_version;  // first line of its --version
  std::optional<Nvcc> nvcc;      // for CUDA architectures
};

// Where nvcc is looked for.
struct NvccPlaces {
  std::filesystem::path named;                 // CUDACXX: this one or none
  std::vector<std::filesystem::path> folders;  // otherwise the first of these whose nvcc is new enough
};

// CUDACXX; PATH, then the bin of CUDA_HOME, CUDA_PATH and /usr/local/cuda*, the newest first.
NvccPlaces nvcc_places();

// Nothing if it is not the answer of an nvcc. `output` is what `nvcc --version` prints.
std::optional<Nvcc> parse_nvcc_version(std::string_view output);

// Fails with kernels/no-nvcc, saying what was found and how to get what is needed.
diag::Result<Nvcc> find_nvcc(Arch arch, const NvccPlaces& places, const std::stop_token& stop);

// The host compiler (CXX, SWEEPCTL_CXX, c++) and, for a CUDA architecture, nvcc.
diag::Result<Toolchain> find_toolchain(Arch arch, const std::stop_token& stop);

}  // namespace sweep::gate
