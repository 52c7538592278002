#include "orchestrator/schema/engine_flags.h"

#include <algorithm>

#include "orchestrator/yaml/parse.h"

namespace sweep::schema {

namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '_' ? '-' : x) == (y == '_' ? '-' : y); });
}

// Engines take numbers in quotes as well.
Integer integer_of(const yaml::Node* node) {
  if (node == nullptr) return {};
  yaml::Node plain = *node;
  plain.quoted = false;
  const auto value = yaml::decode_integer(plain);
  return value ? Integer{*value, node->where, true} : Integer{};
}

Boolean boolean_of(const yaml::Node* node) {
  if (node == nullptr) return {};
  const auto value = yaml::decode_boolean(*node);
  return value ? Boolean{*value, node->where, true} : Boolean{};
}

Text text_of(const yaml::Node* node) {
  return node != nullptr && node->is_scalar() ? Text{node->text, node->where, true} : Text{};
}

const yaml::Node* flag(const yaml::Node& flags, std::initializer_list<std::string_view> names) {
  const yaml::Entry* entry = find_flag(flags, names);
  return entry == nullptr ? nullptr : &entry->value;
}

// vLLM's speculative config is JSON in a text, or a mapping. Places inside the text are those of the whole text.
void read_vllm_speculation(const yaml::Node& node, EngineFlags& flags) {
  if (node.is_map()) {
    flags.draft_tokens = integer_of(flag(node, {"num_speculative_tokens"}));
    flags.adaptive_verification = boolean_of(flag(node, {"enable_adaptive_verification"}));
    flags.rejection_sampling = text_of(flag(node, {"rejection_sample_method"}));
    return;
  }
  if (!node.is_scalar()) return;
  diag::Diagnostics ignored;  // the engine reads its own flags; a text that is no JSON is its business
  const auto document = yaml::parse_json({}, node.text, ignored);
  if (!document || !document->root().is_map()) return;
  read_vllm_speculation(document->root(), flags);
  flags.draft_tokens.where = node.where;
  flags.adaptive_verification.where = node.where;
  flags.rejection_sampling.where = node.where;
}

void read_sglang(const yaml::Node& config, EngineFlags& flags) {
  flags.tp = integer_of(flag(config, {"tp-size", "tensor-parallel-size", "tp"}));
  flags.ep = integer_of(flag(config, {"ep-size", "expert-parallel-size", "ep"}));
  flags.dp = integer_of(flag(config, {"dp-size", "data-parallel-size", "dp"}));
  flags.dp_attn = boolean_of(flag(config, {"enable-dp-attention"}));
  flags.moe_backend = text_of(flag(config, {"moe-runner-backend"}));
  flags.draft_tokens = integer_of(flag(config, {"speculative-dspark-block-size"}));
  if (flags.draft_tokens) return;
  // Without DSPARK the flag counts the verified tokens: the drafts and the target's own.
  Integer verified = integer_of(flag(config, {"speculative-num-draft-tokens"}));
  if (verified) flags.draft_tokens = {*verified - 1, verified.where, true};
}

void read_vllm(const yaml::Node& config, EngineFlags& flags) {
  flags.tp = integer_of(flag(config, {"tensor-parallel-size", "tp"}));
  flags.dp = integer_of(flag(config, {"data-parallel-size", "dp"}));
  flags.moe_backend = text_of(flag(config, {"moe-backend"}));
  if (const yaml::Node* speculation = flag(config, {"speculative-config"})) read_vllm_speculation(*speculation, flags);
}

void read_trtllm(const yaml::Node& config, EngineFlags& flags) {
  flags.tp = integer_of(flag(config, {"tensor_parallel_size"}));
  flags.ep = integer_of(flag(config, {"moe_expert_parallel_size"}));
  flags.dp_attn = boolean_of(flag(config, {"enable_attention_dp"}));
  const yaml::Node* speculation = flag(config, {"speculative_config"});
  if (speculation != nullptr && speculation->is_map())
    flags.draft_tokens = integer_of(flag(*speculation, {"max_draft_len", "num_nextn_predict_layers"}));
}

void read_embedded(const yaml::Node& config, EngineFlags& flags) {
  flags.tp = integer_of(flag(config, {"tp-size"}));
  flags.draft_tokens = integer_of(flag(config, {"num-draft-tokens"}));
}

}  // namespace

const yaml::Entry* find_flag(const yaml::Node& flags, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    for (const yaml::Entry& entry : flags.entries)
      if (same_name(entry.key, name)) return &entry;
  return nullptr;
}

const yaml::Node* engine_config(const Recipe& recipe, Role role) {
  const EngineConfig* config = recipe.backend ? recipe.backend->selected() : nullptr;
  if (config == nullptr) return nullptr;
  switch (role) {
    case Role::kAggregated:
      return config->aggregated;
    case Role::kPrefill:
      return config->prefill;
    case Role::kDecode:
      return config->decode;
  }
  return nullptr;
}

const std::vector<NamedText>& engine_environment(const Recipe& recipe, Role role) {
  static const std::vector<NamedText> kNone;
  if (!recipe.backend) return kNone;
  switch (role) {
    case Role::kAggregated:
      return recipe.backend->aggregated_environment;
    case Role::kPrefill:
      return recipe.backend->prefill_environment;
    case Role::kDecode:
      return recipe.backend->decode_environment;
  }
  return kNone;
}

const NamedText* find_environment(const Recipe& recipe, Role role, std::string_view name) {
  for (const auto* environment : {&engine_environment(recipe, role), &recipe.environment}) {
    const auto found =
        std::find_if(environment->begin(), environment->end(), [&](const NamedText& n) { return n.name == name; });
    if (found != environment->end()) return &*found;
  }
  return nullptr;
}

EngineFlags read_engine_flags(const Recipe& recipe, Role role) {
  EngineFlags flags;
  if (!recipe.backend) return flags;
  flags.engine = engine_of_backend(recipe.backend->type.value);
  const yaml::Node* config = engine_config(recipe, role);
  if (config == nullptr || !config->is_map()) return flags;
  switch (flags.engine) {
    case Engine::kSglang:
      read_sglang(*config, flags);
      break;
    case Engine::kVllm:
      read_vllm(*config, flags);
      break;
    case Engine::kTrtllm:
      read_trtllm(*config, flags);
      break;
    case Engine::kEmbedded:
      read_embedded(*config, flags);
      break;
    case Engine::kAtom:
    case Engine::kOther:
      break;
  }
  return flags;
}

}  // namespace sweep::schema
