#include "orchestrator/schema/engine_flags.h"

#include <algorithm>

#include "orchestrator/yaml/parse.h"

namespace sweep::schema {

namespace {

std::string_view without_dashes(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  return name;
}

bool same_name(std::string_view a, std::string_view b) {
  a = without_dashes(a);
  b = without_dashes(b);
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

Number number_of(const yaml::Node* node) {
  if (node == nullptr) return {};
  yaml::Node plain = *node;
  plain.quoted = false;
  const auto value = yaml::decode_number(plain);
  return value ? Number{*value, node->where, true} : Number{};
}

// Engines take several words for true; a switch without a value is on.
Boolean boolean_of(const yaml::Node* node) {
  if (node == nullptr) return {};
  if (node->is_null()) return {true, node->where, true};
  if (!node->is_scalar()) return {};
  for (const std::string_view word : {"true", "True", "TRUE", "1", "yes", "on"})
    if (node->text == word) return {true, node->where, true};
  return {false, node->where, true};
}

Text text_of(const yaml::Node* node) {
  return node != nullptr && node->is_scalar() ? Text{node->text, node->where, true} : Text{};
}

const yaml::Node* flag(const yaml::Node& flags, std::initializer_list<std::string_view> names) {
  const yaml::Entry* entry = find_flag(flags, names);
  return entry == nullptr ? nullptr : &entry->value;
}

void read_vllm_settings(const yaml::Node& node, EngineFlags& flags) {
  flags.method = text_of(flag(node, {"method"}));
  flags.draft_tokens = integer_of(flag(node, {"num_speculative_tokens"}));
  flags.adaptive_verification = boolean_of(flag(node, {"enable_adaptive_verification"}));
  flags.rejection_sampling = text_of(flag(node, {"rejection_sample_method"}));
  flags.forced_length = number_of(flag(node, {"synthetic_acceptance_length"}));
}

// vLLM's speculative config is JSON in a text, or a mapping. Places inside the text are those of the whole text.
void read_vllm_speculation(const yaml::Node& node, EngineFlags& flags) {
  flags.speculates = true;
  flags.speculation = &node;
  if (node.is_map()) return read_vllm_settings(node, flags);
  if (!node.is_scalar()) return;
  diag::Diagnostics ignored;  // the engine reads its own flags; a text that is no JSON is its business
  const auto document = yaml::parse_json({}, node.text, ignored);
  if (!document || !document->root().is_map()) return;
  read_vllm_settings(document->root(), flags);
  for (yaml::Range* where : {&flags.method.where, &flags.draft_tokens.where, &flags.adaptive_verification.where,
                             &flags.rejection_sampling.where, &flags.forced_length.where})
    *where = node.where;
}

void read_common(const yaml::Node& config, EngineFlags& flags) {
  flags.model = text_of(flag(config, {"model", "model-path"}));
  flags.revision = text_of(flag(config, {"revision"}));
}

void read_sglang(const yaml::Node& config, EngineFlags& flags) {
  flags.tp = integer_of(flag(config, {"tp-size", "tensor-parallel-size", "tp"}));
  flags.pp = integer_of(flag(config, {"pp-size", "pipeline-parallel-size", "pp"}));
  flags.ep = integer_of(flag(config, {"ep-size", "expert-parallel-size", "ep"}));
  flags.dp = integer_of(flag(config, {"dp-size", "data-parallel-size", "dp"}));
  flags.dp_attn = boolean_of(flag(config, {"enable-dp-attention"}));
  flags.moe_backend = text_of(flag(config, {"moe-runner-backend"}));
  flags.method = text_of(flag(config, {"speculative-algorithm", "speculative-algo"}));
  flags.speculates = flags.method.present || flag(config, {"speculative-num-steps"}) != nullptr;
  flags.draft_tokens = integer_of(flag(config, {"speculative-dspark-block-size"}));
  if (flags.draft_tokens) flags.speculates = true;
  if (flags.draft_tokens || flags.is_dspark()) return;
  // Without DSPARK the flag counts the verified tokens: the drafts and the target's own.
  Integer verified = integer_of(flag(config, {"speculative-num-draft-tokens"}));
  if (!verified) return;
  flags.draft_tokens = {*verified - 1, verified.where, true};
  flags.speculates = true;
}

void read_vllm(const yaml::Node& config, EngineFlags& flags) {
  flags.tp = integer_of(flag(config, {"tensor-parallel-size", "tp"}));
  flags.pp = integer_of(flag(config, {"pipeline-parallel-size", "pp"}));
  flags.dp = integer_of(flag(config, {"data-parallel-size", "dp"}));
  flags.dcp = integer_of(flag(config, {"decode-context-parallel-size", "dcp"}));
  flags.pcp = integer_of(flag(config, {"prefill-context-parallel-size", "pcp"}));
  flags.expert_parallel = boolean_of(flag(config, {"enable-expert-parallel"}));
  flags.moe_backend = text_of(flag(config, {"moe-backend"}));
  if (const yaml::Node* speculation = flag(config, {"speculative-config"})) read_vllm_speculation(*speculation, flags);
}

void read_trtllm(const yaml::Node& config, EngineFlags& flags) {
  flags.tp = integer_of(flag(config, {"tensor_parallel_size"}));
  flags.pp = integer_of(flag(config, {"pipeline_parallel_size"}));
  flags.pcp = integer_of(flag(config, {"context_parallel_size"}));
  flags.ep = integer_of(flag(config, {"moe_expert_parallel_size"}));
  flags.dp_attn = boolean_of(flag(config, {"enable_attention_dp"}));
  if (const yaml::Node* moe = flag(config, {"moe_config"}); moe != nullptr && moe->is_map())
    flags.moe_backend = text_of(flag(*moe, {"backend"}));
  const yaml::Node* speculation = flag(config, {"speculative_config"});
  if (speculation == nullptr || !speculation->is_map()) return;
  flags.speculates = true;
  flags.speculation = speculation;
  flags.method = text_of(flag(*speculation, {"decoding_type"}));
  flags.draft_tokens = integer_of(flag(*speculation, {"max_draft_len", "num_nextn_predict_layers"}));
  flags.adaptive_verification = boolean_of(flag(*speculation, {"enable_confidence_scheduling"}));
}

void read_embedded(const yaml::Node& config, EngineFlags& flags) {
  flags.tp = integer_of(flag(config, {"tp-size"}));
  flags.draft_tokens = integer_of(flag(config, {"num-draft-tokens"}));
  flags.speculates = flags.draft_tokens.present;
}

}  // namespace

int64_t EngineFlags::ranks() const {
  const int64_t product = tp.value_or(1) * pp.value_or(1) * pcp.value_or(1);
  const bool inside_tp = engine == Engine::kSglang && dp_attn.value;  // SGLang splits the TP ranks for attention
  return inside_tp || engine == Engine::kTrtllm ? product : product * dp.value_or(1);
}

bool EngineFlags::is_dspark() const {
  return same_name(method.value, "dspark") || method.value == "DSPARK" || method.value == "DSpark";
}

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
  flags.configured = true;
  read_common(*config, flags);
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
