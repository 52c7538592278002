// The progress of hashing as a stage shows it.
#pragma once

#include <functional>

#include "orchestrator/pipeline/progress.h"
#include "orchestrator/weights/hash_files.h"

namespace sweep::pipeline {

// Shows MiB done and their rate as progress of Stage::kWeights, from now on. `progress` must outlive it.
std::function<void(const weights::HashProgress&)> show_hashing(Progress& progress);

}  // namespace sweep::pipeline
