// Names of files inside a model's folder: what schema/ allows in pins holds for indexes, hubs and folders too.
#pragma once

#include "orchestrator/schema/model_path.h"

namespace sweep::weights {

using schema::unsafe_reason;

}  // namespace sweep::weights
