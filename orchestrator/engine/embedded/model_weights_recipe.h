// The numbers inside the tensors that make_model() writes.
#pragma once

#include <cstdint>

#include "orchestrator/engine/embedded/model_config.h"
#include "orchestrator/engine/embedded/safetensors.h"

namespace sweep::engine::embedded {

// Fills one tensor. Each tensor has its own stream of random numbers, from the seed and its name.
//
// The model is a random network around one learnable regularity: token t is usually followed by successor(t). Each
// token has a code of +-1 in the first dspark_markov_rank dimensions of the hidden state; the output head of a token
// matches the code of its predecessor there. The remaining dimensions carry context that the layers add to, and the
// output head reads them with random weights: they overrule the regularity in a part of the cases. The draft head knows
// the codes (its Markov factors are exactly them) and only a part of the context, so it is right often, but not always.
// The last dimension is a constant that keeps byte and special tokens out of the predictions.
Tensor make_tensor(const TensorSpec& spec, const ModelConfig& config, uint64_t seed);

}  // namespace sweep::engine::embedded
