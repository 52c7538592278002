// `sweepctl-embedded serve`: loads model and kernels, serves until a signal, its parent's death or a failure.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/engine.h"

namespace sweep::engine::embedded {

// kAuto: what the kernel library is for.
enum class Device : uint8_t { kAuto, kCpu, kCuda };

struct ServeOptions {
  std::filesystem::path model;
  std::filesystem::path kernels;
  int port = 0;                     // 0: any free one
  std::filesystem::path port_file;  // written when requests are answered; empty: none
  std::string served_model_name;    // empty: the model folder's name
  bool with_parent = false;         // stop when the parent process ends
  Device device = Device::kAuto;
  int64_t ranks = 1;  // GPUs that share the model
  EngineOptions engine;
};

// Returns after SIGTERM or SIGINT. Blocks these signals in the whole process, so call it before any thread is made.
diag::Result<diag::Done> serve(const ServeOptions& options);

}  // namespace sweep::engine::embedded
