#include "orchestrator/engine/embedded/cpu/weights.h"

#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "orchestrator/engine/embedded/cpu/simd.h"
#include "orchestrator/engine/embedded/tensors.h"

namespace sweep::engine::embedded::cpu {

namespace {

std::vector<float> values_of(const Tensor& tensor) {
  static_assert(std::endian::native == std::endian::little);
  std::vector<float> values(static_cast<size_t>(tensor.spec.elements()));
  if (tensor.spec.dtype == Dtype::kF32) {
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, tensor.bytes.data() + 2 * i, sizeof half);
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    std::memcpy(&values[i], &bits, sizeof bits);
  }
  return values;
}

class Arranger {
 public:
  explicit Arranger(const Checkpoint& checkpoint) : config_(checkpoint.config), checkpoint_(checkpoint) {}

  std::vector<float> plain(const std::string& name) const { return values_of(tensor(name)); }

  PackedMatrix packed(const std::string& name) const {
    const Tensor& source = tensor(name);
    return PackedMatrix::pack(values_of(source), source.spec.shape[0], source.spec.shape[1]);
  }

  // Equal parts of the outputs, each its own matrix.
  std::vector<PackedMatrix> split(const std::string& name, int64_t parts) const {
    const Tensor& source = tensor(name);
    const int64_t outputs = source.spec.shape[0] / parts;
    const int64_t inputs = source.spec.shape[1];
    const auto values = values_of(source);
    std::vector<PackedMatrix> result;
    for (int64_t part = 0; part < parts; ++part) {
      const auto begin = values.begin() + part * outputs * inputs;
      result.push_back(PackedMatrix::pack({begin, begin + outputs * inputs}, outputs, inputs));
    }
    return result;
  }

  MlpWeights mlp(const std::string& prefix) const {
    const auto gate = packed(prefix + "gate_proj.weight");
    const auto up = packed(prefix + "up_proj.weight");
    MlpWeights mlp;
    mlp.up_offset = gate.padded_outputs;
    mlp.gate_up = gate;
    mlp.gate_up.outputs = gate.padded_outputs + up.outputs;
    mlp.gate_up.padded_outputs = gate.padded_outputs + up.padded_outputs;
    mlp.gate_up.panels.insert(mlp.gate_up.panels.end(), up.panels.begin(), up.panels.end());
    mlp.down = packed(prefix + "down_proj.weight");
    return mlp;
  }

  CompressorWeights compressor(int64_t layer, int64_t ratio) const {
    CompressorWeights weights;
    weights.ratio = ratio;
    if (ratio == 0) return weights;
    const auto name = [&](const char* suffix) { return layer_tensor(layer, std::string("self_attn.") + suffix); };
    std::vector<float> rows;
    for (const char* part : {"compressor.kv_proj.weight", "indexer.k_proj.weight", "compressor.gate_proj.weight",
                             "indexer.weights_proj.weight"}) {
      const auto values = plain(name(part));
      rows.insert(rows.end(), values.begin(), values.end());
    }
    weights.projections =
        PackedMatrix::pack(rows, static_cast<int64_t>(rows.size()) / config_.hidden_size, config_.hidden_size);
    weights.position_bias = plain(name("compressor.position_bias"));
    weights.norm = plain(name("compressor.norm.weight"));
    weights.index_q = packed(name("indexer.q_proj.weight"));
    return weights;
  }

  LayerWeights layer(int64_t index) const {
    const auto name = [&](const char* suffix) { return layer_tensor(index, suffix); };
    LayerWeights weights;
    weights.input_norm = plain(name("input_layernorm.weight"));
    weights.q_a = packed(name("self_attn.q_a_proj.weight"));
    weights.q_a_norm = plain(name("self_attn.q_a_layernorm.weight"));
    weights.q_b = split(name("self_attn.q_b_proj.weight"), config_.num_attention_heads);
    if (config_.has_window()) {
      weights.kv = packed(name("self_attn.kv_proj.weight"));
      weights.kv_norm = plain(name("self_attn.kv_layernorm.weight"));
    }
    weights.attn_sink = plain(name("self_attn.attn_sink"));
    weights.o_a = split(name("self_attn.o_a_proj.weight"), config_.o_groups);
    weights.o_b = packed(name("self_attn.o_b_proj.weight"));
    weights.compressor = compressor(index, config_.compress_ratios[static_cast<size_t>(index)]);
    weights.post_norm = plain(name("post_attention_layernorm.weight"));
    weights.mlp = mlp(name("mlp."));
    return weights;
  }

  DraftWeights draft() const {
    DraftWeights weights;
    if (config_.dspark_block_size == 0) return weights;
    weights.fc = packed("dspark.fc.weight");
    weights.position_embeddings = plain("dspark.position_embeddings.weight");
    weights.input_norm = plain("dspark.input_layernorm.weight");
    weights.mlp = mlp("dspark.mlp.");
    weights.norm = plain("dspark.norm.weight");
    weights.markov_w1 = plain("dspark.markov_head.markov_w1.weight");
    weights.markov_w2 = packed("dspark.markov_head.markov_w2.weight");
    return weights;
  }

 private:
  const Tensor& tensor(const std::string& name) const { return checkpoint_.tensor(name); }

  const ModelConfig& config_;
  const Checkpoint& checkpoint_;
};

}  // namespace

PackedMatrix PackedMatrix::pack(const std::vector<float>& rows, int64_t outputs, int64_t inputs) {
  PackedMatrix matrix;
  matrix.inputs = inputs;
  matrix.outputs = outputs;
  matrix.padded_outputs = (outputs + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
  matrix.panels.assign(static_cast<size_t>(matrix.padded_outputs * inputs), 0.0F);
  for (int64_t output = 0; output < outputs; ++output) {
    const int64_t first = output / kPanelColumns * kPanelColumns * inputs + output % kPanelColumns;
    for (int64_t input = 0; input < inputs; ++input) {
      matrix.panels[static_cast<size_t>(first + input * kPanelColumns)] =
          rows[static_cast<size_t>(output * inputs + input)];
    }
  }
  return matrix;
}

void PackedMatrix::multiply(const float* a, int64_t a_stride, int64_t rows, float* c, int64_t c_stride) const {
  simd().matmul({.a = a,
                 .a_stride = a_stride,
                 .rows = rows,
                 .panels = panels.data(),
                 .inner = inputs,
                 .columns = padded_outputs,
                 .c = c,
                 .c_stride = c_stride});
}

void PackedMatrix::multiply_panels(const float* a, int64_t rows, int64_t first, int64_t count, float* c) const {
  simd().matmul({.a = a,
                 .a_stride = inputs,
                 .rows = rows,
                 .panels = panels.data() + first * kPanelColumns * inputs,
                 .inner = inputs,
                 .columns = count * kPanelColumns,
                 .c = c + first * kPanelColumns,
                 .c_stride = padded_outputs});
}

Model arrange(const Checkpoint& checkpoint) {
  Model model;
  model.config = checkpoint.config;
  const Arranger arranger(checkpoint);
  model.embedding = arranger.plain("model.embed_tokens.weight");
  for (int64_t layer = 0; layer < model.config.num_hidden_layers; ++layer)
    model.layers.push_back(arranger.layer(layer));
  model.norm = arranger.plain("model.norm.weight");
  model.lm_head = arranger.packed("lm_head.weight");
  model.draft = arranger.draft();
  return model;
}

}  // namespace sweep::engine::embedded::cpu
