// Writes a model folder with deterministic weights: the same options give the same bytes on every machine and with
// every compiler, so that a folder can be pinned and verified like a downloaded checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/model_config.h"

namespace sweep::engine::embedded {

struct MakeModelOptions {
  uint64_t seed = 1;
  ModelConfig config;  // dspark_markov_rank must leave room for context in the hidden state (rank < hidden_size - 1)
  int64_t shard_bytes = 0;  // a shard is closed before it grows beyond this; 0: 3 MB, or 256 MB of a large model
};

// A file of the model folder.
struct ModelFile {
  std::string name;
  std::function<std::string()> content;  // makes it; the same each time
};

// All files of the folder, without touching the disk.
std::vector<ModelFile> model_files(const MakeModelOptions& options);

// Writes the folder: everything goes into a folder beside it that is then renamed, so a kill at any moment leaves
// `folder` absent or complete. A folder that already holds exactly these files is left alone; one that holds anything
// else is an error.
diag::Result<diag::Done> make_model(const std::filesystem::path& folder, const MakeModelOptions& options = {});

}  // namespace sweep::engine::embedded
