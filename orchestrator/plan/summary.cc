#include "orchestrator/plan/summary.h"

#include <algorithm>
#include <map>

#include "orchestrator/plan/expand.h"
#include "orchestrator/plan/matrix_difference.h"
#include "orchestrator/plan/row_list.h"
#include "orchestrator/schema/facts.h"
#include "orchestrator/schema/points.h"

namespace sweep::plan {

namespace {

using schema::Checkout;
using schema::MatrixEntry;
using schema::Point;
using schema::PointView;

// The limit that a point's own recipe states.
std::optional<double> limit_of(const Checkout& checkout, const BuiltRow& built) {
  const schema::Text& reference = built.entry->recipe_of(*built.point);
  if (!reference) return std::nullopt;
  const schema::RecipeVariant* variant = schema::find_recipe_variant(checkout, *reference);
  if (variant == nullptr || variant->tree == nullptr) return std::nullopt;
  const yaml::Node* slurm = variant->tree->find("slurm");
  const yaml::Node* limit = slurm == nullptr ? nullptr : slurm->find("time_limit");
  return limit == nullptr || !limit->is_scalar() ? std::nullopt : time_limit_minutes(limit->text);
}

class Summary {
 public:
  Summary(const Checkout& head, const Checkout* base) : head_(head), base_(base) {}

  MatrixSummary run() {
    RowList list = full_sweep_rows(head_, {});
    result_.diagnostics = std::move(list.diagnostics);
    result_.entries = head_.entries.size();
    for (const BuiltRow& built : list.rows) add_load(built);
    for (auto& [name, load] : loads_) result_.runners.push_back(std::move(load));
    for (const MatrixEntry& entry : head_.entries) add_entry(entry);
    if (base_ != nullptr) compare();
    result_.diagnostics.normalise();
    return std::move(result_);
  }

 private:
  void add_load(const BuiltRow& built) {
    RunnerLoad& load = loads_[built.entry->runner.value];
    if (load.runner.empty()) {
      load.runner = built.entry->runner.value;
      if (const schema::GpuType* gpu = schema::gpu_type_of_runner(load.runner)) load.gpu_type = gpu->name;
    }
    if (built.is_in_progress()) {
      ++load.in_progress;
      ++result_.in_progress;
      return;
    }
    const int64_t gpus = built.entry->uses_no_gpu() ? 0 : built.point->gpus();
    load.least_gpus = load.jobs == 0 ? gpus : std::min(load.least_gpus, gpus);
    load.most_gpus = std::max(load.most_gpus, gpus);
    ++load.jobs;
    ++result_.jobs;
    const size_t points = built.concurrencies().size();
    load.points += points;
    result_.points += points;
    if (const auto marked = built.row.find("run-eval"); marked != built.row.end() && *marked == true) ++load.evaluated;
    constexpr double kMinutesAnHour = 60;
    if (const auto minutes = limit_of(head_, built)) {
      ++load.jobs_with_limit;
      load.limited_gpu_hours += *minutes / kMinutesAnHour * static_cast<double>(gpus);
    }
  }

  void add_entry(const MatrixEntry& entry) {
    if (entry.research_only.value) add_research(entry);
    OpenItem unresolved{OpenItem::Kind::kUnresolvedRecipe, entry.key, {}};
    for (const PointView& view : schema::points_of(entry)) {
      add_acceptance(entry, *view.point);
      add_references(*view.point, unresolved.recipes);
    }
    if (!entry.is_ready()) result_.open.push_back({OpenItem::Kind::kInProgress, entry.key, {}});
    if (!unresolved.recipes.empty()) result_.open.push_back(std::move(unresolved));
  }

  void add_research(const MatrixEntry& entry) {
    std::vector<std::string> deviations;
    for (const schema::Text& deviation : entry.deviations) deviations.push_back(deviation.value);
    auto group = std::find_if(result_.research.begin(), result_.research.end(), [&](const ResearchGroup& known) {
      return known.authorization == entry.authorization.value && known.deviations == deviations;
    });
    if (group == result_.research.end())
      group = result_.research.insert(group, {{}, entry.authorization.value, std::move(deviations)});
    group->entries.push_back(entry.key);
  }

  void add_acceptance(const MatrixEntry& entry, const Point& point) {
    const schema::SpecDecoding method = point.spec_decoding.value_or(schema::SpecDecoding::kNone);
    if (method == schema::SpecDecoding::kNone) return;
    AcceptanceGroup asked;
    asked.method = schema::choice_name(method);
    asked.draft_tokens = entry.draft_tokens_of(point).value;
    if (const auto& acceptance = entry.acceptance_of(point)) {
      const auto source = acceptance->source.value_or(schema::AcceptanceSource::kGolden);
      asked.source = schema::choice_name(source);
      if (acceptance->length) asked.length = *acceptance->length;
      if (source == schema::AcceptanceSource::kGolden) asked.length = golden_length(head_, entry, asked.draft_tokens);
    }
    auto group = std::find_if(result_.acceptance.begin(), result_.acceptance.end(), [&](const AcceptanceGroup& known) {
      return known.method == asked.method && known.draft_tokens == asked.draft_tokens && known.source == asked.source &&
             known.length == asked.length;
    });
    if (group == result_.acceptance.end()) group = result_.acceptance.insert(group, std::move(asked));
    if (group->entries.empty() || group->entries.back() != entry.key) group->entries.push_back(entry.key);
    ++group->topologies;
  }

  // Recipes that workers name for the launcher (CONFIG_FILE=path[:variant]) and that are not here.
  void add_references(const Point& point, std::vector<std::string>& out) const {
    constexpr std::string_view kSetting = "CONFIG_FILE=";
    for (const auto* worker : {&point.prefill, &point.decode}) {
      if (!*worker) continue;
      for (const schema::Text& setting : (*worker)->additional_settings) {
        if (!setting->starts_with(kSetting)) continue;
        const std::string reference = setting->substr(kSetting.size());
        if (head_.find_recipe(schema::parse_recipe_reference(reference).path) != nullptr) continue;
        if (std::find(out.begin(), out.end(), reference) == out.end()) out.push_back(reference);
      }
    }
  }

  void compare() {
    result_.has_base = true;
    const RowFilter no_evals{.evals = Evals::kNone};
    const RowList before = full_sweep_rows(*base_, {.filter = no_evals});
    const RowList after = full_sweep_rows(head_, {.filter = no_evals});
    result_.changes = compare_rows(before.rows, after.rows);
    for (const RecipeChange& change : result_.changes) {
      result_.totals.added += change.added.size();
      result_.totals.removed += change.removed.size();
      result_.totals.changed += change.changed.size();
    }
  }

  const Checkout& head_;
  const Checkout* base_;
  MatrixSummary result_;
  std::map<std::string, RunnerLoad> loads_;
};

}  // namespace

MatrixSummary summarise(const Checkout& head, const Checkout* base) {
  return Summary(head, base).run();
}

}  // namespace sweep::plan
