#include "orchestrator/schema/config.h"

#include <algorithm>
#include <array>

#include "orchestrator/schema/facts.h"

namespace sweep::schema {

int64_t Point::gpus() const {
  if (is_multi_node()) return (prefill ? prefill->gpus() : 0) + (decode ? decode->gpus() : 0);
  return tp.value_or(1) * pp.value_or(1) * pcp_size.value_or(1);
}

bool MatrixEntry::uses_no_gpu() const {
  return is_embedded() && gpu_type_of_runner(runner.value) == nullptr;
}

const Integer& MatrixEntry::draft_tokens_of(const Point& point) const {
  return point.num_draft_tokens ? point.num_draft_tokens : num_draft_tokens;
}

const std::optional<Acceptance>& MatrixEntry::acceptance_of(const Point& point) const {
  return point.acceptance ? point.acceptance : acceptance;
}

const Text& MatrixEntry::recipe_of(const Point& point) const {
  return point.recipe ? point.recipe : recipe;
}

const RunnerLabel* Runners::find_label(std::string_view name) const {
  const auto found = std::find_if(labels.begin(), labels.end(), [&](const RunnerLabel& l) { return l.name == name; });
  return found == labels.end() ? nullptr : &*found;
}

const RunnerHardware* Runners::find_hardware(std::string_view name) const {
  const auto found =
      std::find_if(hardware.begin(), hardware.end(), [&](const RunnerHardware& h) { return h.name == name; });
  return found == hardware.end() ? nullptr : &*found;
}

const EngineConfig* RecipeBackend::selected() const {
  const auto of = [](const std::optional<EngineConfig>& config) { return config ? &*config : nullptr; };
  if (type.value == "vllm") return of(vllm);
  if (type.value == "trtllm") return of(trtllm);
  if (type.value == "mocker") return of(mocker);
  if (type.value == "embedded") return of(embedded);
  return of(sglang);  // srt-slurm's default
}

const RecipeVariant* RecipeFile::find(std::string_view selector) const {
  if (selector.empty() && variants.size() == 1) return &variants.front();
  const auto found =
      std::find_if(variants.begin(), variants.end(), [&](const RecipeVariant& v) { return v.selector == selector; });
  return found == variants.end() ? nullptr : &*found;
}

std::vector<std::string> curve_names_of(const MatrixEntry& entry) {
  // Short names under which the peer looks curves up (InferenceX, runners/inject_synthetic_acceptance.py).
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kPrefixes{{
      {"dsv4", "deepseek-v4-pro"},
      {"dsr1", "deepseek-r1"},
      {"dsv4dspark", "deepseek-v4-pro-0813"},
      {"dsv4dsparkprob", "deepseek-v4-pro-0813"},
  }};
  std::string name = entry.model.value.substr(entry.model.value.rfind('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  std::vector<std::string> names{std::move(name), entry.model_prefix.value};
  for (const auto& [prefix, model] : kPrefixes)
    if (entry.model_prefix.value == prefix) names.emplace_back(model);
  return names;
}

bool AcceptanceCurve::is_for(const MatrixEntry& entry) const {
  const std::vector<std::string> names = curve_names_of(entry);
  return std::find(names.begin(), names.end(), model) != names.end();
}

}  // namespace sweep::schema
