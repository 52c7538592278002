// libsweepctl-embedded-cuda.so, loaded at run time from beside the program.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/checkpoint.h"
#include "orchestrator/engine/embedded/cuda/device_model.h"

namespace sweep::engine::embedded::cuda {

// `path` empty: beside this program. Fails with embedded/no-cuda if the library was not built, is not there, or lacks
// something of CUDA, and with embedded/device if the model cannot be put on the GPUs.
diag::Result<std::unique_ptr<DeviceModel>> make_device_model(const std::string& path, const Checkpoint& checkpoint,
                                                             DeviceModelOptions options);

}  // namespace sweep::engine::embedded::cuda
