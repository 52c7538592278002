// A rank's part of the weights, in its GPU's memory. Matrices are BF16 [outputs, inputs] as in the checkpoint; those
// that read the same input are one.
#pragma once

#include <cstdint>
#include <vector>

#include "orchestrator/engine/embedded/cuda/device_model.h"
#include "orchestrator/engine/embedded/cuda/kernels.h"
#include "orchestrator/engine/embedded/cuda/runtime.h"
#include "orchestrator/engine/embedded/cuda/shard.h"

namespace sweep::engine::embedded::cuda {

struct RankMlp {
  int64_t size = 0;           // of the inner dimension
  int64_t unit = 1;           // rows of gate and of up that take turns
  DeviceArray<Bf16> gate_up;  // [unit of gate; unit of up; ...]
  DeviceArray<Bf16> down;
};

struct RankLayer {
  int64_t ratio = 0;  // 0: no compressed latents
  DeviceArray<float> input_norm;
  // [q_a; kv; compressor kv; index key; gate; index weights; zeros up to `columns.stride`]
  DeviceArray<Bf16> projections;
  ProjectionColumns columns;
  DeviceArray<float> q_a_norm;
  DeviceArray<Bf16> queries;  // [q_b of the rank's heads; the indexer's queries]
  DeviceArray<float> kv_norm;
  DeviceArray<float> attn_sink;
  DeviceArray<Bf16> o_a;
  DeviceArray<Bf16> o_b;
  DeviceArray<float> position_bias;
  DeviceArray<float> compressor_norm;
  DeviceArray<float> post_norm;
  RankMlp mlp;
};

// Of the first rank alone: the drafter is not split.
struct RankDraft {
  DeviceArray<Bf16> fc;
  DeviceArray<Bf16> position_embeddings;
  DeviceArray<float> input_norm;
  RankMlp mlp;
  DeviceArray<float> norm;
  DeviceArray<Bf16> markov_in;
  DeviceArray<Bf16> markov_out;
};

struct RankWeights {
  DeviceArray<Bf16> embedding;
  std::vector<RankLayer> layers;
  DeviceArray<float> norm;  // this and what follows: of the first rank
  DeviceArray<Bf16> lm_head;
  RankDraft draft;
};

// Copies to the current device.
RankWeights load_weights(const ModelConfig& config, const TensorSource& tensors, const Shard& shard, bool is_first);

}  // namespace sweep::engine::embedded::cuda
