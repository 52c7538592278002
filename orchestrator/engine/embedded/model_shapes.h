// The models that make_model() can write by name: the default one, and the attention of published models at what one of
// eight tensor-parallel ranks has of it, with few layers and a small vocabulary.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/engine/embedded/model_config.h"

namespace sweep::engine::embedded {

struct ModelShape {
  std::string_view name;    // "mla-8h", "v4-flash-tp8", ...
  std::string_view covers;  // what of which model, for people
  ModelConfig config;
};

// All, the default one first.
const std::vector<ModelShape>& model_shapes();

const ModelShape* find_model_shape(std::string_view name);

// The shape of a model named "sweepctl/embedded-NAME"; null for another name.
const ModelShape* shape_of_model(std::string_view model);

}  // namespace sweep::engine::embedded
