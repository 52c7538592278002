#include "orchestrator/schema/acceptance_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/facts.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kSwitch = "SYNTHETIC_ACCEPTANCE";
constexpr std::string_view kLength = "SYNTHETIC_ACCEPTANCE_LENGTH";
constexpr std::string_view kDrafts = "NUM_SPEC_TOKENS";
constexpr std::string_view kMode = "THINKING_MODE";
// Back ends of the peer's injector (InferenceX, runners/synthetic_injectors).
constexpr auto kInjectors = std::to_array<std::string_view>({"dynamo-vllm", "dynamo-sglang"});
constexpr auto kEvaluations = std::to_array<std::string_view>({"mmlu", "gpqa", "gsm8k", "longbenchv2", "lm-eval"});

std::optional<double> number_of(std::string_view text) {
  yaml::Node node;
  node.kind = yaml::Kind::kScalar;
  node.text = std::string(text);
  const auto value = yaml::decode_number(node);
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<int64_t> drafts_of(const EngineFlags& flags) {
  return flags.draft_tokens ? std::optional(*flags.draft_tokens) : std::nullopt;
}

std::optional<int64_t> drafts_of(const Recipe& recipe) {
  for (const Role role : {Role::kDecode, Role::kAggregated})
    if (const auto drafts = drafts_of(read_engine_flags(recipe, role))) return drafts;
  return std::nullopt;
}

bool is_evaluation(const Recipe& recipe) {
  return recipe.benchmark &&
         std::find(kEvaluations.begin(), kEvaluations.end(), recipe.benchmark->type.value) != kEvaluations.end();
}

// A comment that states this very number as tokens committed: "... a mean of 5.7 committed tokens ...".
std::optional<yaml::Range> comment_stating(const yaml::Document& document, std::string_view number) {
  const std::string& text = document.text();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const size_t hash = line.find('#');
    if (hash != std::string_view::npos) {
      const std::string_view comment = line.substr(hash);
      const size_t at = comment.find(number);
      const auto is_part = [&](size_t i) {
        return i < comment.size() && ((comment[i] >= '0' && comment[i] <= '9') || comment[i] == '.');
      };
      const bool whole = at != std::string_view::npos && !is_part(at - 1) &&
                         !(is_part(at + number.size()) && is_part(at + number.size() + 1));
      const bool about = comment.find("committed") != std::string_view::npos ||
                         comment.find("acceptance length") != std::string_view::npos;
      if (whole && about)
        return yaml::Range{static_cast<uint32_t>(begin + hash), static_cast<uint32_t>(begin + line.size())};
    }
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace

bool forces_length(const std::optional<Acceptance>& acceptance) {
  return acceptance && acceptance->source && *acceptance->source != AcceptanceSource::kMeasured;
}

void AcceptanceRules::add(const MatrixEntry& entry, diag::Diagnostic diagnostic) {
  if (entry.outside_root) diagnostic.severity = diag::Severity::kWarning;
  out_.add(std::move(diagnostic));
}

const std::vector<AcceptanceControl>& AcceptanceRules::controls_of(const RecipeVariant& variant) {
  const auto [found, added] = controls_.try_emplace(&variant);
  if (added) found->second = find_controls(*variant.tree);
  return found->second;
}

void AcceptanceRules::check(const std::vector<PointView>& views, const std::vector<BoundRecipe>& bound,
                            bool with_settings) {
  for (const PointView& view : views) {
    check_golden(view);
    if (!with_settings || !view.point->is_multi_node()) continue;
    check_settings(view, out_);
    const auto own = std::find_if(bound.begin(), bound.end(), [&](const BoundRecipe& b) { return b.view == &view; });
    check_settings_of(view, own == bound.end() ? nullptr : &*own);
  }
  for (const BoundRecipe& one : bound) check_bound(one);
}

void AcceptanceRules::check_golden(const PointView& view) {
  const MatrixEntry& entry = *view.entry;
  const auto& acceptance = entry.acceptance_of(*view.point);
  if (!acceptance || !acceptance->source || *acceptance->source != AcceptanceSource::kGolden) return;
  const Integer& drafts = entry.draft_tokens_of(*view.point);
  if (!drafts) return;
  const auto values = curves_.values(entry, *drafts);
  const std::string path = (view.point->acceptance ? view.path : entry.key) + ".acceptance.source";
  if (values.empty()) {
    out_.add(
        finding(rule::acceptance_no_curve, *entry.document, acceptance->source.where, path,
                fmt::format("no golden acceptance length for \"{}\" with {} draft tokens", entry.model.value, *drafts),
                "add a curve to matrix/acceptance/, or use source: measured"));
  } else if (values.size() > 1) {
    diag::Diagnostic d = finding(rule::acceptance_ambiguous_curve, *entry.document, acceptance->source.where, path,
                                 fmt::format("two golden curves of \"{}\" disagree with {} draft tokens: {} and {}",
                                             values[0].curve->model, *drafts, values[0].length, values[1].length),
                                 "give the curves different names and name the model accordingly");
    for (const GoldenCurves::Value& value : values)
      d.notes.push_back(
          {fmt::format("{} comes from here", value.length), value.curve->document->span(value.curve->where)});
    out_.add(std::move(d));
  }
}

void AcceptanceRules::check_bound(const BoundRecipe& bound) {
  const MatrixEntry& entry = *bound.view->entry;
  const Recipe& recipe = bound.variant->recipe;
  const auto& acceptance = entry.acceptance_of(*bound.view->point);
  for (const AcceptanceControl& control : controls_of(*bound.variant)) check_control(bound, control);
  if (!forces_length(acceptance)) return;
  const auto both_places = [&](diag::RuleId id, yaml::Range where, std::string message, std::string help) {
    diag::Diagnostic d = finding(id, *bound.file->document, where, "backend", std::move(message), std::move(help));
    d.notes.push_back({fmt::format("entry \"{}\" asks for a forced length here", entry.key),
                       entry.document->span(acceptance->where)});
    add(entry, std::move(d));
  };
  if (const auto adaptive = find_adaptive(recipe))
    both_places(rule::acceptance_forced_with_adaptive, adaptive->where,
                fmt::format("a forced acceptance length together with adaptive verification ({})", adaptive->name),
                "switch it off: a step that verifies fewer drafts cannot commit the asked number of tokens");
  if (is_evaluation(recipe))
    both_places(rule::acceptance_in_evaluation, recipe.benchmark->type.where,
                fmt::format("a forced acceptance length in the evaluation \"{}\"", recipe.benchmark->type.value),
                "evaluate with source: measured");
}

void AcceptanceRules::check_control(const BoundRecipe& bound, const AcceptanceControl& control) {
  const MatrixEntry& entry = *bound.view->entry;
  const auto& acceptance = entry.acceptance_of(*bound.view->point);
  if (entry.outside_root) {
    // The peer keeps some lengths in recipes: what matters is whether they are its golden ones.
    if (!control.committed || curves_.related(entry).empty()) return;
    const auto drafts = drafts_of(bound.variant->recipe);
    if (curves_.is_golden(entry, *control.committed, drafts)) return;
    diag::Diagnostic d = finding(rule::acceptance_not_golden, *bound.file->document, control.where, "backend",
                                 fmt::format("{} makes steps commit {:.6g} tokens, which is no golden length of \"{}\"",
                                             control.name, *control.committed, entry.model.value),
                                 "use the golden length of this number of drafts");
    d.notes.push_back({fmt::format("bound to entry \"{}\"", entry.key), entry.document->span(bound.reference)});
    add(entry, std::move(d));
    return;
  }
  diag::Diagnostic d = finding(rule::acceptance_set_in_recipe, *bound.file->document, control.where, "backend",
                               fmt::format("the recipe forces the acceptance length itself ({})", control.name),
                               "remove it: the length is rendered from the matrix entry");
  d.notes.push_back({acceptance ? fmt::format("entry \"{}\" states it here", entry.key)
                                : fmt::format("entry \"{}\" uses the recipe and states no acceptance", entry.key),
                     entry.document->span(acceptance ? acceptance->where : bound.reference)});
  out_.add(std::move(d));
}

void AcceptanceRules::check_settings_of(const PointView& view, const BoundRecipe* bound) {
  const std::vector<Setting> settings = settings_of(view);
  check_switch(view, settings);
  const MatrixEntry& entry = *view.entry;
  std::optional<int64_t> drafts;
  if (const Integer& stated = entry.draft_tokens_of(*view.point)) drafts = *stated;
  if (!drafts && bound != nullptr) drafts = drafts_of(bound->variant->recipe);
  if (const Setting* stated = find_setting(settings, kDrafts)) {
    const auto number = number_of(stated->value);
    if (number && *number >= 1) drafts = static_cast<int64_t>(*number);
  }
  if (const Setting* length = find_setting(settings, kLength)) check_length(view, *length, drafts);
  const Setting* on = find_setting(settings, kSwitch);
  if (on != nullptr && on->value == "true" && bound != nullptr && bound->from_settings)
    check_injection(view, *on, *bound);
  for (const Setting& setting : settings) {
    if (setting.key == kSwitch || setting.key == kLength || !is_control_name(setting.key)) continue;
    add(entry, finding(rule::acceptance_settings, *entry.document, setting.where, setting.path,
                       fmt::format("{} forces the acceptance length through additional-settings", setting.key),
                       "state acceptance in the entry, where policy is checked"));
  }
}

void AcceptanceRules::check_switch(const PointView& view, const std::vector<Setting>& settings) {
  const MatrixEntry& entry = *view.entry;
  const auto report = [&](const Setting& setting, std::string message, std::string help) {
    add(entry, finding(rule::acceptance_settings, *entry.document, setting.where, setting.path, std::move(message),
                       std::move(help)));
  };
  const Setting* on = find_setting(settings, kSwitch);
  const Setting* length = find_setting(settings, kLength);
  if (on != nullptr && on->value != "true" && on->value != "false")
    report(*on, fmt::format("{} is \"{}\", which switches nothing on", kSwitch, on->value), "write true or false");
  const bool is_on = on != nullptr && on->value == "true";
  if (length != nullptr && !is_on)
    report(*length, fmt::format("{} without {}=true has no effect", kLength, kSwitch),
           "switch it on, or remove the length");
  if (is_on && std::find(kInjectors.begin(), kInjectors.end(), entry.framework.value) == kInjectors.end())
    report(*on, fmt::format("framework \"{}\" has no injector of acceptance lengths", entry.framework.value),
           "the peer's injector knows dynamo-vllm and dynamo-sglang only");
  if (is_on && (entry.acceptance_of(*view.point) || view.entry->revision))
    report(*on, fmt::format("{} beside an entry with acceptance control of its own", kSwitch),
           "state acceptance: in the entry; the engine's adapter renders it");
  if (const Setting* drafts = find_setting(settings, kDrafts)) {
    const auto number = number_of(drafts->value);
    if (!number || *number < 1 || *number != static_cast<double>(static_cast<int64_t>(*number)))
      report(*drafts, fmt::format("{} is \"{}\"", kDrafts, drafts->value),
             "write a number of draft tokens, at least 1");
  }
  const Setting* mode = find_setting(settings, kMode);
  if (mode != nullptr && mode->value != "thinking_on" && mode->value != "thinking_off")
    report(*mode, fmt::format("{} is \"{}\"", kMode, mode->value), "write thinking_on or thinking_off");
}

void AcceptanceRules::check_length(const PointView& view, const Setting& length, std::optional<int64_t> drafts) {
  const MatrixEntry& entry = *view.entry;
  const auto value = number_of(length.value);
  if (!value) {
    out_.add(finding(rule::acceptance_settings, *entry.document, length.where, length.path,
                     fmt::format("{} is \"{}\", expected a number", kLength, length.value)));
    return;
  }
  if (*value < 1 || (drafts && *value > static_cast<double>(*drafts) + 1)) {
    out_.add(finding(rule::acceptance_out_of_range, *entry.document, length.where, length.path,
                     drafts ? fmt::format("acceptance length {} is out of range, expected 1 to {} with {} draft tokens",
                                          *value, *drafts + 1, *drafts)
                            : fmt::format("acceptance length {} is out of range, expected at least 1", *value),
                     "the acceptance length counts the tokens committed per verification step: accepted drafts + 1"));
    return;
  }
  const bool allowed = entry.research_only.value && view.fixed != nullptr;
  if (allowed || curves_.is_golden(entry, *value, drafts)) return;
  // Files from elsewhere: nothing is known without a curve.
  if (entry.outside_root && curves_.related(entry).empty()) return;
  const std::string of = drafts ? fmt::format(" with {} draft tokens", *drafts) : std::string();
  add(entry, finding(rule::acceptance_not_golden, *entry.document, length.where, length.path,
                     fmt::format("acceptance length {} is no golden length of \"{}\"{}", *value, entry.model.value, of),
                     "official results use the golden curve; other lengths are research-only"));
  if (view.agentic != nullptr && !entry.outside_root)
    out_.add(finding(rule::acceptance_explicit_not_for_agentic, *entry.document, length.where, length.path,
                     "an explicit acceptance length in an agentic scenario",
                     "explicit lengths are for fixed-seq-len scenarios only; use the golden length"));
}

// The injector edits the text of the recipe with regular expressions, and then fails or misses what it does not match.
void AcceptanceRules::check_injection(const PointView& view, const Setting& on, const BoundRecipe& bound) {
  const Recipe& recipe = bound.variant->recipe;
  const auto report = [&](yaml::Range where, std::string message, std::string help) {
    diag::Diagnostic d = finding(rule::acceptance_injection, *view.entry->document, on.where, on.path,
                                 std::move(message), std::move(help));
    d.notes.push_back({"in this recipe", bound.file->document->span(where)});
    out_.add(std::move(d));
  };
  const yaml::Range whole = recipe.backend ? recipe.backend->where : recipe.where;
  if (engine_of_framework(view.entry->framework.value) == Engine::kVllm) {
    const EngineFlags flags = read_engine_flags(recipe, decoding_role(bound));
    if (!flags.configured) return;
    if (flags.speculation == nullptr)
      return report(whole, "there is no speculative-config to put the acceptance length into",
                    "add the speculative decoding, or remove the switch");
    const yaml::Node& node = *flags.speculation;
    const std::string& text = bound.file->document->text();
    if (!node.is_scalar() || node.where.begin >= text.size() || text[node.where.begin] != '\'')
      report(node.where, "the acceptance length is put into single-quoted JSON only",
             "write speculative-config: '{...}' in single quotes, on one line");
    return;
  }
  if (!recipe.backend) return;
  const RecipeBackend& backend = *recipe.backend;
  if (backend.aggregated_environment.empty() && backend.prefill_environment.empty() &&
      backend.decode_environment.empty())
    report(whole, "there is no environment block to put the acceptance length into",
           "add an environment to the role that decodes");
  for (const AcceptanceControl& control : controls_of(*bound.variant))
    report(control.where, fmt::format("the recipe forces the acceptance length already ({})", control.name),
           "remove it from the recipe, or the switch from the entry");
}

void AcceptanceRules::check(const RecipeFile& file) {
  for (const RecipeVariant& variant : file.variants) check_variant(file, variant);
}

void AcceptanceRules::check_variant(const RecipeFile& file, const RecipeVariant& variant) {
  const auto& controls = controls_of(variant);
  if (controls.empty()) return;
  const auto drafts = drafts_of(variant.recipe);
  for (const AcceptanceControl& control : controls) {
    if (control.committed &&
        (*control.committed < 1 || (drafts && *control.committed > static_cast<double>(*drafts) + 1)))
      out_.add(finding(
          rule::acceptance_out_of_range, *file.document, control.where, "backend",
          fmt::format("{} makes steps commit {:.6g} tokens, expected 1 to {}", control.name, *control.committed,
                      drafts ? fmt::format("{} with {} draft tokens", *drafts + 1, *drafts) : "draft tokens + 1"),
          "the acceptance length counts the tokens committed per verification step: accepted drafts + 1"));
    if (control.counts_drafts && control.committed) check_drafts_only(file, control, drafts);
  }
  if (const auto adaptive = find_adaptive(variant.recipe)) {
    const auto stated = std::find_if(controls.begin(), controls.end(),
                                     [](const AcceptanceControl& control) { return control.committed.has_value(); });
    const std::string length = stated == controls.end() ? std::string() : fmt::format(" of {:.6g}", *stated->committed);
    diag::Diagnostic d = finding(
        rule::acceptance_forced_with_adaptive, *file.document, adaptive->where, "backend",
        fmt::format("a forced acceptance length{} together with adaptive verification ({})", length, adaptive->name),
        "switch it off: a step that verifies fewer drafts cannot commit the asked number of tokens");
    d.notes.push_back({fmt::format("the length is forced here ({})", controls.front().name),
                       file.document->span(controls.front().where)});
    out_.add(std::move(d));
  }
  if (is_evaluation(variant.recipe))
    out_.add(finding(
        rule::acceptance_in_evaluation, *file.document, controls.front().where, "backend",
        fmt::format("a forced acceptance length in the evaluation \"{}\"", variant.recipe.benchmark->type.value),
        "an evaluation needs what the model really answers; remove the control"));
}

// The variable leaves the target's own token out. Whether that was known to the writer shows in a comment that states
// the same number as committed tokens, or in the golden lengths; without either it can only be pointed out.
void AcceptanceRules::check_drafts_only(const RecipeFile& file, const AcceptanceControl& control,
                                        std::optional<int64_t> drafts) {
  const double accepted = *control.committed - 1;
  const auto comment = comment_stating(*file.document, control.text);
  if (!comment && curves_.has_length(*control.committed, drafts)) return;
  diag::Diagnostic d = finding(rule::acceptance_counts_drafts_only, *file.document, control.where, "backend",
                               fmt::format("{} counts accepted drafts only: with {} a step commits {:.6g} tokens",
                                           control.name, control.text, *control.committed),
                               fmt::format("for an acceptance length of {:.6g} write {:.6g}", accepted, accepted - 1));
  if (comment) {
    d.severity = diag::Severity::kError;
    d.notes.push_back(
        {fmt::format("{} committed tokens are stated here", control.text), file.document->span(*comment)});
  } else if (curves_.has_length(accepted, drafts)) {
    d.message += fmt::format("; {:.6g} itself is a golden acceptance length", accepted);
  }
  out_.add(std::move(d));
}

}  // namespace sweep::schema
