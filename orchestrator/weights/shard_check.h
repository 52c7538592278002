// Index and shards of a model against each other and against the totals in the pin.
#pragma once

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/staged_files.h"

namespace sweep::weights {

// Checks every *.safetensors header, and if there is an index, tensors both ways and sizes.
void check_shards(const Staging& staging, const Pin& pin, diag::Diagnostics& diagnostics);

}  // namespace sweep::weights
