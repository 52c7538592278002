#include "orchestrator/schema/acceptance_control.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "orchestrator/yaml/parse.h"

namespace sweep::schema {

namespace {

// Parts of the names that engines give to a forced acceptance length, in one spelling: SGLANG_SIMULATE_ACC_LEN;
// TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS; vLLM's synthetic_acceptance_length, _rate and _rates and the peer's
// SYNTHETIC_ACCEPTANCE; ATOM's --spec-decode-acceptance-length and -rate.
constexpr auto kNames = std::to_array<std::string_view>(
    {"simulate_acc_len", "force_num_accepted_tokens", "synthetic_acceptance", "spec_decode_acceptance"});
constexpr std::string_view kDraftsOnly = "force_num_accepted_tokens";
constexpr std::string_view kRejection = "rejection_sample_method";
constexpr std::string_view kSynthetic = "synthetic";
constexpr int kMostJsonDepth = 8;

std::string one_spelling(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](char c) {
    if (c == '-') return '_';
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return result;
}

std::string_view name_in(std::string_view spelled) {
  for (const std::string_view name : kNames)
    if (spelled.find(name) != std::string_view::npos) return name;
  return {};
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

class ControlSearch {
 public:
  std::vector<AcceptanceControl> take(const yaml::Node& tree) {
    walk(tree, nullptr, 0);
    return std::move(found_);
  }

 private:
  // `inside`: the place of the text whose JSON content is being walked.
  void walk(const yaml::Node& node, const yaml::Range* inside, int depth) {
    for (const yaml::Node& item : node.items) {
      if (item.is_scalar()) check_text(item, inside, depth);
      walk(item, inside, depth);
    }
    for (const yaml::Entry& entry : node.entries) {
      if (!check_name(entry, inside) && entry.value.is_scalar()) check_text(entry.value, inside, depth);
      if (entry.key == "embedded_config" || in_embedded_) check_embedded(entry);
      const bool before = in_embedded_;
      in_embedded_ = before || entry.key == "embedded_config";
      walk(entry.value, inside, depth);
      in_embedded_ = before;
    }
  }

  // The embedded engine's own flags.
  void check_embedded(const yaml::Entry& entry) {
    const std::string name = one_spelling(entry.key);
    if (name == "acceptance" || name == "acceptance_length")
      found_.push_back({entry.key, entry.key_where, number_in(entry.value.text), false, entry.value.text});
  }

  bool check_name(const yaml::Entry& entry, const yaml::Range* inside) {
    const std::string spelled = one_spelling(entry.key);
    const bool forces_by_method = spelled.ends_with(kRejection) && one_spelling(entry.value.text) == kSynthetic;
    const std::string_view name = name_in(spelled);
    if (name.empty() && !forces_by_method) return false;
    AcceptanceControl control{
        entry.key, inside != nullptr ? *inside : entry.key_where, {}, name == kDraftsOnly, entry.value.text};
    const auto value = number_in(entry.value.text);
    if (value && *value < 0 && name == "simulate_acc_len") return true;  // off
    if (value && spelled.find("rate") == std::string::npos)
      control.committed = control.counts_drafts ? *value + 1 : *value;
    if (control.committed && inside == nullptr) control.where = entry.value.where;
    found_.push_back(std::move(control));
    return true;
  }

  void check_text(const yaml::Node& text, const yaml::Range* inside, int depth) {
    const std::string spelled = one_spelling(text.text);
    const bool by_method =
        spelled.find(kRejection) != std::string::npos && spelled.find(kSynthetic) != std::string::npos;
    const std::string_view name = name_in(spelled);
    if (name.empty() && !by_method) return;
    const yaml::Range where = inside != nullptr ? *inside : text.where;
    if (text.text.find('{') != std::string::npos && depth < kMostJsonDepth) {
      diag::Diagnostics ignored;
      const size_t begin = text.text.find('{');
      const auto document = yaml::parse_json({}, text.text.substr(begin), ignored);
      if (document) {
        const size_t before = found_.size();
        walk(document->root(), &where, depth + 1);
        if (found_.size() > before) return;
      }
    }
    found_.push_back({std::string(name.empty() ? kRejection : name), where, {}, false, {}});
  }

  std::vector<AcceptanceControl> found_;
  bool in_embedded_ = false;
};

bool is_true(const yaml::Node* node) {
  return node != nullptr && node->is_scalar() && (node->text == "true" || node->text == "True" || node->text == "1");
}

// ATOM's --dspark-config is JSON in a text, or a mapping.
bool has_confidence_schedule(const yaml::Node& config) {
  if (config.is_map()) return is_true(config.find("confidence_schedule"));
  diag::Diagnostics ignored;
  const auto document = config.is_scalar() ? yaml::parse_json({}, config.text, ignored) : nullptr;
  return document && document->root().is_map() && is_true(document->root().find("confidence_schedule"));
}

}  // namespace

std::vector<AcceptanceControl> find_controls(const yaml::Node& tree) {
  return ControlSearch().take(tree);
}

bool is_control_name(std::string_view name) {
  return !name_in(one_spelling(name)).empty();
}

std::optional<AdaptiveVerification> find_adaptive(const Recipe& recipe) {
  for (const Role role : {Role::kAggregated, Role::kPrefill, Role::kDecode}) {
    const EngineFlags flags = read_engine_flags(recipe, role);
    if (flags.adaptive_verification.value)
      return AdaptiveVerification{
          flags.engine == Engine::kTrtllm ? "enable_confidence_scheduling" : "enable_adaptive_verification",
          flags.adaptive_verification.where};
    const yaml::Node* config = engine_config(recipe, role);
    if (config == nullptr) continue;
    if (const yaml::Entry* threshold = find_flag(*config, {"speculative-dspark-confidence-threshold"}))
      return AdaptiveVerification{"speculative-dspark-confidence-threshold", threshold->key_where};
    const yaml::Entry* dspark = find_flag(*config, {"dspark-config"});
    if (dspark != nullptr && has_confidence_schedule(dspark->value))
      return AdaptiveVerification{"confidence_schedule", dspark->value.where};
  }
  return std::nullopt;
}

}  // namespace sweep::schema
