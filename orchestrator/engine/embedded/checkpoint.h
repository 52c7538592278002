// A model folder in memory: config, tokenizer and tensors as they are stored. Each decoder arranges the tensors for its
// own arithmetic.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/model_config.h"
#include "orchestrator/engine/embedded/safetensors.h"
#include "orchestrator/engine/embedded/tokenizer.h"

namespace sweep::engine::embedded {

struct Checkpoint {
  ModelConfig config;
  Tokenizer tokenizer;
  std::map<std::string, Tensor> tensors;  // exactly those of model_tensors(config)

  const Tensor& tensor(const std::string& name) const;
};

// Reads config, index, shards and tokenizer; demands exactly the tensors that the config implies.
diag::Result<Checkpoint> load_checkpoint(const std::filesystem::path& folder);

}  // namespace sweep::engine::embedded
