// Builds the bundled kernels from source into a content-addressed cache.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <string_view>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/gate/arch.h"

namespace sweep::gate {

struct BuildRequest {
  Arch arch = Arch::kCpu;
  std::filesystem::path sources;  // the checkout's kernels/
  std::filesystem::path cache;    // builds are kept in <cache>/kernels/<arch>-<content id>/
};

// Two shared libraries from one source: the kernels, and their twin that pads the heads to 64 (the gate's baseline).
struct KernelBuild {
  Arch arch = Arch::kCpu;
  std::string content_id;  // first 16 hex digits of the SHA-256 over sources, compilers and settings
  std::string source_sha256;
  std::string compiler;         // first line of its --version
  std::string device_compiler;  // "nvcc 13.0.88 (...)"; empty for the CPU
  std::filesystem::path folder;
  std::filesystem::path library;
  std::string library_sha256;
  std::filesystem::path baseline;
  std::string baseline_sha256;
  // With the libraries of a CUDA architecture; empty for the CPU.
  std::filesystem::path plain_read;  // cubin of the kernel that only reads: the floor of the benchmark
  std::string plain_read_sha256;
  std::filesystem::path resources;  // JSON: registers and memory of each kernel, from ptxas
  std::string resources_sha256;
  bool found = false;  // was in the cache
  double seconds = 0;  // spent on this call
};

// Called with a short text for people ("compiling for cpu").
using Progress = std::function<void(std::string_view)>;

// Finds the build by content, or makes it. A library whose bytes are not those recorded is built anew, with a warning
// in `diagnostics`.
diag::Result<KernelBuild> build_kernels(const BuildRequest& request, const Progress& progress,
                                        const std::stop_token& stop, diag::Diagnostics& diagnostics);

nlohmann::json to_json(const KernelBuild& build);

}  // namespace sweep::gate
