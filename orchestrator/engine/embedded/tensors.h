// The tensors of the checkpoint: names, types and shapes as the config implies them. The maker writes and the loader
// demands exactly these.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/engine/embedded/model_config.h"
#include "orchestrator/engine/embedded/safetensors.h"

namespace sweep::engine::embedded {

// In the order in which they are stored.
std::vector<TensorSpec> model_tensors(const ModelConfig& config);

// "model.layers.3." + suffix
std::string layer_tensor(int64_t layer, const std::string& suffix);

}  // namespace sweep::engine::embedded
