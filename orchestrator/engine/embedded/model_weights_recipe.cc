#include "orchestrator/engine/embedded/model_weights_recipe.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string_view>

#include "orchestrator/base/rng.h"
#include "orchestrator/engine/embedded/tokenizer.h"

namespace sweep::engine::embedded {

namespace {

// Strengths, in units of logits after the final norm; found by measuring acceptance (see README.md).
constexpr double kCodeLogit = 38.0;
constexpr double kContextLogit = 5.5;
constexpr double kSuppressedLogit = -40.0;
constexpr double kDraftContext = 0.25;
constexpr double kDraftCodeLogit = 20.0;

uint64_t stream_seed(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash ^ (seed * 0x9E3779B97F4A7C15u);
}

// Approximately normal with mean 0 and standard deviation 1: the sum of four 16-bit integers, scaled. Integers and one
// correctly rounded product only, so that every machine gets the same value.
double normal(base::SplitMix64& random) {
  const uint64_t bits = random.next();
  int64_t sum = -2 * 65535;
  for (int shift = 0; shift < 64; shift += 16) sum += static_cast<int64_t>((bits >> shift) & 0xFFFF);
  constexpr double kInverseDeviation = 1.0 / 37837.2;
  return static_cast<double>(sum) * kInverseDeviation;
}

// Appends little-endian values to a text whose size is known.
class ValueWriter {
 public:
  ValueWriter(const TensorSpec& spec, std::string& bytes) : is_bf16_(spec.dtype == Dtype::kBf16) {
    bytes.resize(static_cast<size_t>(spec.bytes()));
    next_ = bytes.data();
  }

  void put(double value) {
    const auto narrowed = static_cast<float>(value);
    uint32_t bits = 0;
    std::memcpy(&bits, &narrowed, sizeof bits);
    if (is_bf16_) {
      const auto half = static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
      append(half);
    } else {
      append(bits);
    }
  }

 private:
  template <class T>
  void append(T bits) {
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(next_, &bits, sizeof bits);
    next_ += sizeof bits;
  }

  bool is_bf16_;
  char* next_ = nullptr;
};

// One cycle through the end token and all words (Sattolo's shuffle), and an arbitrary word after anything else.
std::vector<int64_t> successors(const ModelConfig& config, uint64_t seed) {
  base::SplitMix64 random(stream_seed(seed, "successors"));
  std::vector<int64_t> cycle = {config.eos_token_id};
  for (int64_t id = first_word_id(config); id < config.vocab_size; ++id) cycle.push_back(id);
  std::vector<int64_t> next(cycle.size());
  std::iota(next.begin(), next.end(), 0);
  for (size_t i = next.size(); i > 1; --i) std::swap(next[i - 1], next[random.below(i - 1)]);
  std::vector<int64_t> result(static_cast<size_t>(config.vocab_size), -1);
  for (size_t i = 0; i < cycle.size(); ++i) result[static_cast<size_t>(cycle[i])] = cycle[static_cast<size_t>(next[i])];
  for (auto& successor : result) {
    if (successor < 0) successor = cycle[random.below(cycle.size())];
  }
  return result;
}

std::vector<int64_t> predecessors(const ModelConfig& config, uint64_t seed) {
  const auto next = successors(config, seed);
  std::vector<int64_t> result(next.size(), -1);
  for (size_t id = 0; id < next.size(); ++id) {
    const bool in_cycle =
        static_cast<int64_t>(id) == config.eos_token_id || static_cast<int64_t>(id) >= first_word_id(config);
    if (in_cycle) result[static_cast<size_t>(next[id])] = static_cast<int64_t>(id);
  }
  return result;
}

// +-1 per token and code dimension.
std::vector<int8_t> codes(const ModelConfig& config, uint64_t seed) {
  base::SplitMix64 random(stream_seed(seed, "codes"));
  std::vector<int8_t> result(static_cast<size_t>(config.vocab_size * config.dspark_markov_rank));
  for (auto& sign : result) sign = (random.next() >> 63) != 0 ? 1 : -1;
  return result;
}

class TensorWriter {
 public:
  TensorWriter(const TensorSpec& spec, const ModelConfig& config, uint64_t seed)
      : config_(config),
        seed_(seed),
        random_(stream_seed(seed, spec.name)),
        tensor_{spec, {}},
        writer_(tensor_.spec, tensor_.bytes) {}
  TensorWriter(const TensorWriter&) = delete;
  TensorWriter& operator=(const TensorWriter&) = delete;

  Tensor take() { return std::move(tensor_); }

  void constant(double value) {
    for (int64_t i = 0; i < tensor_.spec.elements(); ++i) put(value);
  }

  void scatter(double deviation) {
    for (int64_t i = 0; i < tensor_.spec.elements(); ++i) put(normal(random_) * deviation);
  }

  // Outputs of about `gain` times the input's size.
  void linear(double gain) {
    const double scale = gain / std::sqrt(static_cast<double>(tensor_.spec.shape[1]));
    for (int64_t i = 0; i < tensor_.spec.elements(); ++i) put(normal(random_) * scale);
  }

  // A projection back into the residual stream: weak where the codes are, silent in the constant dimension.
  void residual(double gain) {
    const int64_t columns = tensor_.spec.shape[1];
    const double scale = gain / std::sqrt(static_cast<double>(columns));
    for (int64_t row = 0; row < tensor_.spec.shape[0]; ++row) {
      const double strength = is_code(row) ? scale * 0.125 : row == constant_dimension() ? 0.0 : scale;
      for (int64_t column = 0; column < columns; ++column) put(normal(random_) * strength);
    }
  }

  void embedding() {
    const auto code = codes(config_, seed_);
    for (int64_t id = 0; id < config_.vocab_size; ++id) {
      for (int64_t d = 0; d < config_.hidden_size; ++d) {
        if (is_code(d)) {
          put(code[code_index(id, d)]);
        } else {
          put(d == constant_dimension() ? 1.0 : normal(random_) * 0.5);
        }
      }
    }
  }

  void output_head() {
    const auto code = codes(config_, seed_);
    const auto before = predecessors(config_, seed_);
    const auto rank = static_cast<double>(config_.dspark_markov_rank);
    const double context = kContextLogit / std::sqrt(static_cast<double>(config_.hidden_size) - rank - 1);
    for (int64_t id = 0; id < config_.vocab_size; ++id) {
      const int64_t previous = before[static_cast<size_t>(id)];
      for (int64_t d = 0; d < config_.hidden_size; ++d) {
        const double noise = normal(random_);
        if (d == constant_dimension()) {
          put(previous < 0 ? kSuppressedLogit : 0.0);
        } else if (previous < 0) {
          put(0.0);
        } else {
          put(is_code(d) ? code[code_index(previous, d)] * (kCodeLogit / rank) : noise * context);
        }
      }
    }
  }

  // markov_w1: the code of the token itself. markov_w2: the code of its predecessor.
  void markov(bool output_side) {
    const auto code = codes(config_, seed_);
    const auto before = predecessors(config_, seed_);
    const auto rank = static_cast<double>(config_.dspark_markov_rank);
    for (int64_t id = 0; id < config_.vocab_size; ++id) {
      const int64_t source = output_side ? before[static_cast<size_t>(id)] : id;
      const double scale = output_side ? kDraftCodeLogit / rank : 1.0;
      for (int64_t d = 0; d < config_.dspark_markov_rank; ++d) {
        put(source < 0 ? 0.0 : code[code_index(source, d)] * scale);
      }
    }
  }

  // The drafter's view of the target's hidden states: the mean of the context dimensions, and some noise.
  void drafter_input() {
    const int64_t columns = tensor_.spec.shape[1];
    const auto layers = static_cast<double>(config_.dspark_target_layer_ids.size());
    const double scale = 0.125 / std::sqrt(static_cast<double>(columns));
    for (int64_t row = 0; row < tensor_.spec.shape[0]; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        const double noise = normal(random_) * scale;
        if (column % config_.hidden_size == row && !is_code(row)) {
          put(1.0 / layers);
        } else {
          put(is_code(row) || row == constant_dimension() ? 0.0 : noise);
        }
      }
    }
  }

 private:
  void put(double value) { writer_.put(value); }
  bool is_code(int64_t dimension) const { return dimension < config_.dspark_markov_rank; }
  int64_t constant_dimension() const { return config_.hidden_size - 1; }
  size_t code_index(int64_t id, int64_t dimension) const {
    return static_cast<size_t>(id * config_.dspark_markov_rank + dimension);
  }

  const ModelConfig& config_;
  uint64_t seed_;
  base::SplitMix64 random_;
  Tensor tensor_;
  ValueWriter writer_;  // into tensor_
};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

Tensor make_tensor(const TensorSpec& spec, const ModelConfig& config, uint64_t seed) {
  TensorWriter writer(spec, config, seed);
  const std::string& name = spec.name;
  if (name == "model.embed_tokens.weight") {
    writer.embedding();
  } else if (name == "lm_head.weight") {
    writer.output_head();
  } else if (ends_with(name, "markov_w1.weight")) {
    writer.markov(false);
  } else if (ends_with(name, "markov_w2.weight")) {
    writer.markov(true);
  } else if (name == "dspark.fc.weight") {
    writer.drafter_input();
  } else if (ends_with(name, "o_b_proj.weight")) {
    writer.residual(2.0);
  } else if (name == "dspark.mlp.down_proj.weight" || name == "dspark.position_embeddings.weight") {
    writer.residual(0.25);
  } else if (ends_with(name, "down_proj.weight")) {
    writer.residual(1.0);
  } else if (name == "dspark.norm.weight") {
    writer.constant(kDraftContext);
  } else if (ends_with(name, "q_a_layernorm.weight")) {
    writer.constant(2.0);  // sharpens attention: scores with a deviation of about 2
  } else if (ends_with(name, "layernorm.weight") || ends_with(name, "norm.weight")) {
    writer.constant(1.0);
  } else if (ends_with(name, "attn_sink") || ends_with(name, "position_bias")) {
    writer.scatter(0.5);
  } else {
    writer.linear(1.0);
  }
  return writer.take();
}

}  // namespace sweep::engine::embedded
