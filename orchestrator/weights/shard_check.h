// Index and shards of a model against each other and against the totals in the pin.
#pragma once

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/staged_files.h"

namespace sweep::weights {

// Checks every *.safetensors header, and for each *.safetensors.index.json tensors both ways, sizes and the shards'
// names. Indexes of other formats (pytorch_model.bin.index.json) are hashed like any file and not read.
void check_shards(const Staging& staging, const Pin& pin, diag::Diagnostics& diagnostics);

}  // namespace sweep::weights
