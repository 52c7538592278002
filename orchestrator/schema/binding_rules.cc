#include "orchestrator/schema/binding_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/rules.h"
#include "orchestrator/schema/settings.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

// Settings that name a recipe; the second one stands in the place of the first for evaluations.
constexpr auto kRecipeSettings = std::to_array<std::string_view>({"CONFIG_FILE", "EVAL_CONFIG_FILE"});

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

}  // namespace

std::vector<BoundRecipe> BindingRules::check(const MatrixEntry& entry, const std::vector<PointView>& views,
                                             bool with_settings) {
  check_runner(entry);
  check_pin(entry);
  const RunnerHardware* hardware = checkout_.runners.find_hardware(entry.runner.value);
  std::vector<BoundRecipe> bound;
  for (const PointView& view : views) {
    if (hardware != nullptr && hardware->gpus_per_node.value > 0) check_fit(view, *hardware->gpus_per_node);
    for (const Reference& reference : references_of(view, with_settings)) bind(view, reference, bound);
  }
  RecipeComparison comparison(entry, out_);
  for (const BoundRecipe& one : bound) comparison.compare(one);
  comparison.report();
  return bound;
}

void BindingRules::check_runner(const MatrixEntry& entry) {
  const Runners& runners = checkout_.runners;
  if (!entry.runner || runners.document == nullptr || runners.find_label(*entry.runner) != nullptr) return;
  std::vector<std::string_view> names;
  for (const RunnerLabel& label : runners.labels) names.push_back(label.name);
  const auto nearest = base::nearest(*entry.runner, names);
  diag::Diagnostic d = finding(
      rule::matrix_unknown_runner, *entry.document, entry.runner.where, entry.key + ".runner",
      fmt::format("runner \"{}\" is no label of {}", *entry.runner, runners.document->name()),
      nearest ? fmt::format("did you mean \"{}\"?", *nearest) : "add the label and its machines to the runner file");
  // A file from elsewhere may belong to other runners.
  if (entry.outside_root && !runners.outside_root) d.severity = diag::Severity::kWarning;
  out_.add(std::move(d));
}

void BindingRules::check_pin(const MatrixEntry& entry) {
  if (!entry.revision || !entry.model || checkout_.find_pin(*entry.model, *entry.revision) != nullptr) return;
  const auto other = std::find_if(checkout_.pins.begin(), checkout_.pins.end(),
                                  [&](const Pin& pin) { return pin.model.value == *entry.model; });
  std::string help = "make one with `sweepctl weights pin`";
  if (other != checkout_.pins.end()) help = fmt::format("{} pins revision {}", other->file, other->revision.value);
  out_.add(finding(rule::binding_pin_missing, *entry.document, entry.revision.where, entry.key + ".revision",
                   fmt::format("no pin in matrix/models/ for \"{}\" at revision {}", *entry.model, *entry.revision),
                   std::move(help)));
}

void BindingRules::check_fit(const PointView& view, int64_t node) {
  const auto report = [&](yaml::Range where, std::string path, int64_t gpus, std::string_view what) {
    out_.add(finding(rule::matrix_gpus_do_not_fit, *view.entry->document, where, std::move(path),
                     fmt::format("{} GPUs ({}) do not fit on nodes of {} GPUs of runner \"{}\"", gpus, what, node,
                                 view.entry->runner.value),
                     "lower tp, pp or pcp-size, or describe a multi-node entry"));
  };
  const Point& point = *view.point;
  if (!point.is_multi_node()) {
    if (point.gpus() > node && point.tp) report(point.tp.where, view.path, point.gpus(), "tp x pp x pcp-size");
    return;
  }
  for (const auto& [worker, role] : {std::pair{&point.prefill, ".prefill"}, std::pair{&point.decode, ".decode"}}) {
    if (!*worker) continue;
    const int64_t gpus = (*worker)->gpus_per_worker();
    if (gpus > node && gpus % node != 0)
      report((*worker)->tp.where, view.path + role, gpus, "a worker over several nodes");
  }
}

std::vector<BindingRules::Reference> BindingRules::references_of(const PointView& view, bool with_settings) const {
  std::vector<Reference> references;
  if (const Text& recipe = view.entry->recipe_of(*view.point))
    references.push_back({*recipe, recipe.where, (view.point->recipe ? view.path : view.entry->key) + ".recipe"});
  if (!with_settings) return references;
  for (const Setting& setting : settings_of(view)) {
    if (std::find(kRecipeSettings.begin(), kRecipeSettings.end(), setting.key) == kRecipeSettings.end()) continue;
    const bool repeated =
        std::any_of(references.begin(), references.end(), [&](const Reference& r) { return r.text == setting.value; });
    if (!repeated) references.push_back({setting.value, setting.where, setting.path, true});
  }
  return references;
}

void BindingRules::bind(const PointView& view, const Reference& reference, std::vector<BoundRecipe>& bound) {
  const RecipeReference parsed = parse_recipe_reference(reference.text);
  const RecipeFile* file = recipes_.find(parsed.path);
  if (file == nullptr) return report_missing(view, reference, parsed.path);
  const RecipeVariant* variant = file->find(parsed.selector);
  if (variant == nullptr) return report_variant(view, reference, *file, parsed.selector);
  bound.push_back({&view, file, variant, reference.where, reference.from_settings});
}

void BindingRules::report_missing(const PointView& view, const Reference& reference, const std::string& recipe) {
  const MatrixEntry& entry = *view.entry;
  if (reference.from_settings) {
    const bool local = recipes_.has_folder_of(recipe);
    Unresolved& unresolved =
        local ? missing_[{entry.document.get(), folder_of(recipe)}] : elsewhere_[entry.document.get()];
    if (unresolved.count++ == 0) {
      unresolved.entry = &entry;
      unresolved.first = reference;
      unresolved.recipe = recipe;
    }
    return;
  }
  std::vector<std::string_view> names;
  for (const RecipeFile& file : checkout_.recipes) names.push_back(file.path);
  const auto nearest = base::nearest(recipe, names);
  out_.add(
      finding(rule::binding_recipe_missing, *entry.document, reference.where, reference.path,
              fmt::format("recipe \"{}\" does not exist", recipe),
              nearest ? fmt::format("did you mean \"{}\"?", *nearest) : "recipe paths are relative to the checkout"));
}

void BindingRules::report_variant(const PointView& view, const Reference& reference, const RecipeFile& file,
                                  const std::string& selector) {
  std::string selectors;
  for (const RecipeVariant& v : file.variants) selectors += (selectors.empty() ? "" : ", ") + v.selector;
  const bool plain = file.variants.size() == 1 && file.variants.front().selector.empty();
  // A zip without an index names all of its variants, and a pattern may; a point needs one.
  const bool several =
      !selector.empty() && (selector.find_first_of("*?") != std::string::npos ||
                            std::any_of(file.variants.begin(), file.variants.end(), [&](const RecipeVariant& v) {
                              return v.selector.starts_with(selector + "[") || v.selector.starts_with(selector + ".");
                            }));
  out_.add(finding(
      rule::binding_recipe_missing, *view.entry->document, reference.where, reference.path,
      selector.empty() ? fmt::format("recipe \"{}\" has several variants and none is named", file.path)
      : several ? fmt::format("\"{}\" names several variants of recipe \"{}\", a point runs one", selector, file.path)
                : fmt::format("recipe \"{}\" has no variant \"{}\"", file.path, selector),
      selectors.empty()
          ? std::string(plain ? "the file has no variants: leave out the selector" : "the file has no variants")
          : fmt::format("its variants: {}", selectors)));
}

void BindingRules::finish() {
  for (const auto& [document, unresolved] : elsewhere_) {
    out_.add(finding(
        rule::binding_recipe_elsewhere, *unresolved.entry->document, unresolved.first.where, unresolved.first.path,
        unresolved.count == 1
            ? fmt::format("recipe \"{}\" lives elsewhere and is not checked", unresolved.recipe)
            : fmt::format("{} references to recipes, \"{}\" first, lead elsewhere and are not checked",
                          unresolved.count, unresolved.recipe),
        "put the recipes below recipes/ (or benchmarks/multi_node/srt-slurm-recipes/) to have them checked"));
  }
  for (const auto& [key, unresolved] : missing_) {
    const auto beside = recipes_.beside(unresolved.recipe);
    const auto nearest = base::nearest(unresolved.recipe.substr(unresolved.recipe.find('/') + 1), beside);
    out_.add(finding(
        rule::binding_recipe_missing, *unresolved.entry->document, unresolved.first.where, unresolved.first.path,
        fmt::format("recipe \"{}\" does not exist{}", unresolved.recipe,
                    unresolved.count == 1 ? "" : fmt::format(", nor do {} more of its folder", unresolved.count - 1)),
        nearest ? fmt::format("did you mean \"recipes/{}\"?", *nearest)
                : fmt::format("the folder {} has other recipes", key.second)));
  }
}

}  // namespace sweep::schema
