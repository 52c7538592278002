#include "orchestrator/engine/embedded/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/embedded.h"

namespace sweep::engine::embedded {

namespace {

using nlohmann::ordered_json;

struct IntegerField {
  const char* name;
  int64_t ModelConfig::*member;
  int64_t least;
  int64_t most;
};

// Upper limits keep a damaged config from asking for absurd memory.
constexpr IntegerField kIntegerFields[] = {
    {"vocab_size", &ModelConfig::vocab_size, 8, 1 << 20},
    {"hidden_size", &ModelConfig::hidden_size, 8, 1 << 14},
    {"num_hidden_layers", &ModelConfig::num_hidden_layers, 1, 256},
    {"intermediate_size", &ModelConfig::intermediate_size, 1, 1 << 16},
    {"max_position_embeddings", &ModelConfig::max_position_embeddings, 16, 1 << 20},
    {"num_attention_heads", &ModelConfig::num_attention_heads, 1, 128},
    {"head_dim", &ModelConfig::head_dim, 512, 576},
    {"qk_rope_head_dim", &ModelConfig::qk_rope_head_dim, 64, 64},
    {"q_lora_rank", &ModelConfig::q_lora_rank, 1, 1 << 14},
    {"o_groups", &ModelConfig::o_groups, 1, 128},
    {"o_lora_rank", &ModelConfig::o_lora_rank, 1, 1 << 14},
    {"sliding_window", &ModelConfig::sliding_window, 0, 1 << 16},
    {"index_n_heads", &ModelConfig::index_n_heads, 1, 128},
    {"index_head_dim", &ModelConfig::index_head_dim, 1, 1024},
    {"index_topk", &ModelConfig::index_topk, 1, 1 << 16},
    {"kv_block_size", &ModelConfig::kv_block_size, 1, 4096},
    {"dspark_block_size", &ModelConfig::dspark_block_size, 0, 15},
    {"dspark_markov_rank", &ModelConfig::dspark_markov_rank, 1, 1 << 14},
    {"dspark_intermediate_size", &ModelConfig::dspark_intermediate_size, 1, 1 << 16},
    {"dspark_noise_token_id", &ModelConfig::dspark_noise_token_id, 0, 1 << 20},
    {"bos_token_id", &ModelConfig::bos_token_id, 0, 1 << 20},
    {"eos_token_id", &ModelConfig::eos_token_id, 0, 1 << 20},
    {"pad_token_id", &ModelConfig::pad_token_id, 0, 1 << 20},
};

struct NumberField {
  const char* name;
  double ModelConfig::*member;
};

constexpr NumberField kNumberFields[] = {
    {"rms_norm_eps", &ModelConfig::rms_norm_eps},
    {"rope_theta", &ModelConfig::rope_theta},
};

struct ListField {
  const char* name;
  std::vector<int64_t> ModelConfig::*member;
};

constexpr ListField kListFields[] = {
    {"compress_ratios", &ModelConfig::compress_ratios},
    {"dspark_target_layer_ids", &ModelConfig::dspark_target_layer_ids},
};

std::string read_integer(const ordered_json& json, const IntegerField& field, ModelConfig& config) {
  const auto found = json.find(field.name);
  if (found == json.end()) return fmt::format("\"{}\" is missing", field.name);
  if (!found->is_number_integer()) return fmt::format("\"{}\" is not an integer", field.name);
  const int64_t value = found->get<int64_t>();
  if (value < field.least || value > field.most) {
    return fmt::format("\"{}\" is {}, expected {} to {}", field.name, value, field.least, field.most);
  }
  config.*field.member = value;
  return {};
}

std::string read_number(const ordered_json& json, const NumberField& field, ModelConfig& config) {
  const auto found = json.find(field.name);
  if (found == json.end()) return fmt::format("\"{}\" is missing", field.name);
  if (!found->is_number()) return fmt::format("\"{}\" is not a number", field.name);
  config.*field.member = found->get<double>();
  return {};
}

std::string read_list(const ordered_json& json, const ListField& field, ModelConfig& config) {
  const auto found = json.find(field.name);
  if (found == json.end()) return fmt::format("\"{}\" is missing", field.name);
  if (!found->is_array()) return fmt::format("\"{}\" is not a list", field.name);
  std::vector<int64_t> values;
  for (const auto& item : *found) {
    if (!item.is_number_integer()) return fmt::format("\"{}\" holds something that is not an integer", field.name);
    values.push_back(item.get<int64_t>());
  }
  config.*field.member = std::move(values);
  return {};
}

std::string read_fields(const ordered_json& json, ModelConfig& config) {
  for (const auto& field : kIntegerFields) {
    if (auto problem = read_integer(json, field, config); !problem.empty()) return problem;
  }
  for (const auto& field : kNumberFields) {
    if (auto problem = read_number(json, field, config); !problem.empty()) return problem;
  }
  for (const auto& field : kListFields) {
    if (auto problem = read_list(json, field, config); !problem.empty()) return problem;
  }
  if (const auto layout = json.find("kv_layout"); layout != json.end()) {  // absent: the default
    if (!layout->is_string()) return "\"kv_layout\" is not a text";
    config.kv_layout = layout->get<std::string>();
  }
  return {};
}

}  // namespace

std::string config_text(const ModelConfig& config) {
  ordered_json json;
  json["architectures"] = {std::string(kArchitecture)};
  json["model_type"] = "sweepctl_embedded";
  json["torch_dtype"] = "bfloat16";
  json["hidden_act"] = "silu";
  json["num_key_value_heads"] = 1;
  json["tie_word_embeddings"] = false;
  for (const auto& field : kIntegerFields) json[field.name] = config.*field.member;
  for (const auto& field : kListFields) json[field.name] = config.*field.member;
  for (const auto& field : kNumberFields) json[field.name] = config.*field.member;
  if (config.kv_layout != ModelConfig().kv_layout) json["kv_layout"] = config.kv_layout;
  return json.dump(2) + "\n";
}

std::string config_problem(const ModelConfig& config) {
  for (const auto& field : kIntegerFields) {
    const int64_t value = config.*field.member;
    if (value < field.least || value > field.most) {
      return fmt::format("\"{}\" is {}, expected {} to {}", field.name, value, field.least, field.most);
    }
  }
  const KvLayout* layout = find_kv_layout(config.kv_layout);
  if (layout == nullptr)
    return fmt::format("\"kv_layout\" \"{}\" is no record format of the kernels", config.kv_layout);
  if (layout->head_dim != config.head_dim) {
    return fmt::format("\"head_dim\" is {}, records of \"{}\" have {}", config.head_dim, layout->name,
                       layout->head_dim);
  }
  if (static_cast<int64_t>(config.compress_ratios.size()) != config.num_hidden_layers) {
    return fmt::format("\"compress_ratios\" has {} entries for {} layers", config.compress_ratios.size(),
                       config.num_hidden_layers);
  }
  for (const int64_t ratio : config.compress_ratios) {
    if (ratio < 0 || ratio > 128 || (ratio > 0 && config.kv_block_size % ratio != 0)) {
      return fmt::format("compress ratio {} is neither 0 nor a divisor of the block size {} from 1 to 128", ratio,
                         config.kv_block_size);
    }
    if (ratio == 0 && !config.has_window()) {
      return "a layer has neither a window (\"sliding_window\" is 0) nor compressed latents (compress ratio 0)";
    }
  }
  if (config.num_attention_heads % config.o_groups != 0) return "\"o_groups\" does not divide the number of heads";
  if (config.dspark_target_layer_ids.empty()) return "\"dspark_target_layer_ids\" is empty";
  for (const int64_t layer : config.dspark_target_layer_ids) {
    if (layer < 0 || layer >= config.num_hidden_layers) {
      return fmt::format("\"dspark_target_layer_ids\" names layer {} of {}", layer, config.num_hidden_layers);
    }
  }
  for (const int64_t id :
       {config.bos_token_id, config.eos_token_id, config.pad_token_id, config.dspark_noise_token_id}) {
    if (id >= config.vocab_size) return fmt::format("special token {} is outside the vocabulary", id);
  }
  if (!(config.rms_norm_eps > 0 && config.rms_norm_eps < 1)) return "\"rms_norm_eps\" is not between 0 and 1";
  if (!(config.rope_theta > 1 && std::isfinite(config.rope_theta))) return "\"rope_theta\" is not above 1";
  return {};
}

diag::Result<ModelConfig> parse_config(std::string_view text, const std::string& name) {
  const auto refuse = [&](const std::string& problem) {
    return diag::fail(diag::make_at(diag::rule::embedded_model_invalid, {.file = name}, problem));
  };
  const auto json = ordered_json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return refuse("the file is not a JSON object");
  const auto architectures = json.find("architectures");
  if (architectures == json.end() || *architectures != ordered_json::array({std::string(kArchitecture)})) {
    return refuse(fmt::format("\"architectures\" is not [\"{}\"]", kArchitecture));
  }
  ModelConfig config;
  if (auto problem = read_fields(json, config); !problem.empty()) return refuse(problem);
  if (auto problem = config_problem(config); !problem.empty()) return refuse(problem);
  return config;
}

}  // namespace sweep::engine::embedded
