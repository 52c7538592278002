// A checkpoint in memory, arranged for the loops of simd.h.
#pragma once

#include <cstdint>
#include <vector>

#include "orchestrator/engine/embedded/checkpoint.h"

namespace sweep::engine::embedded::cpu {

// A weight matrix [outputs, inputs] in panels; outputs are padded with zeros to a multiple of kPanelColumns.
struct PackedMatrix {
  int64_t inputs = 0;
  int64_t outputs = 0;
  int64_t padded_outputs = 0;
  std::vector<float> panels;

  // `rows` is [outputs, inputs], row-major.
  static PackedMatrix pack(const std::vector<float>& rows, int64_t outputs, int64_t inputs);

  // c[r, 0 .. padded_outputs) = a[r, :] W^T
  void multiply(const float* a, int64_t a_stride, int64_t rows, float* c, int64_t c_stride) const;
  // The same for panels [first, first + count) only; c points at the first column of the whole output.
  void multiply_panels(const float* a, int64_t rows, int64_t first, int64_t count, float* c) const;
};

struct MlpWeights {
  PackedMatrix gate_up;  // the gate's padded outputs first, then those of up
  PackedMatrix down;
  int64_t up_offset = 0;  // column where up begins
};

// What a layer with compressed latents has besides: all projections of the hidden state in one matrix, whose columns
// are [latent | index key | gate | index weights].
struct CompressorWeights {
  int64_t ratio = 0;  // 0: the layer has no compressed latents, the rest is empty
  PackedMatrix projections;
  std::vector<float> position_bias;
  std::vector<float> norm;
  PackedMatrix index_q;
};

struct LayerWeights {
  std::vector<float> input_norm;
  PackedMatrix q_a;
  std::vector<float> q_a_norm;
  std::vector<PackedMatrix> q_b;  // per head
  PackedMatrix kv;                // of the window; it and the next are empty without one
  std::vector<float> kv_norm;
  std::vector<float> attn_sink;
  std::vector<PackedMatrix> o_a;  // per group
  PackedMatrix o_b;
  CompressorWeights compressor;
  std::vector<float> post_norm;
  MlpWeights mlp;
};

struct DraftWeights {
  PackedMatrix fc;
  std::vector<float> position_embeddings;  // [block, hidden]
  std::vector<float> input_norm;
  MlpWeights mlp;
  std::vector<float> norm;
  std::vector<float> markov_w1;  // [vocab, rank]
  PackedMatrix markov_w2;        // [vocab, rank]
};

struct Model {
  ModelConfig config;
  std::vector<float> embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::vector<float> norm;
  PackedMatrix lm_head;
  DraftWeights draft;
};

// The checkpoint need not outlive the result.
Model arrange(const Checkpoint& checkpoint);

}  // namespace sweep::engine::embedded::cpu
