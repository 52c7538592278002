// Rules between a matrix entry and what it refers to: runners, recipes, pins, acceptance curves.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/engine_flags.h"
#include "orchestrator/schema/facts.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

using diag::RuleId;
namespace rule = diag::rule;

constexpr std::string_view kNoImage = "none";

bool is_pinned(std::string_view image) {
  constexpr std::string_view kDigest = "@sha256:";
  const size_t at = image.find(kDigest);
  return at != std::string_view::npos && kSha256Form.matches(image.substr(at + kDigest.size()));
}

bool needs_pinning(const MatrixEntry& entry) {
  return entry.image && *entry.image != kNoImage && !entry.is_embedded() && !is_pinned(*entry.image);
}

// An alias of a cluster file has neither; what stands behind it is not known here.
bool is_image_reference(std::string_view container) {
  return container.find(':') != std::string_view::npos || container.find('/') != std::string_view::npos ||
         container == kNoImage;
}

// Concurrencies of a recipe's benchmark: a list, or text like "4x8x16".
std::vector<int64_t> concurrencies_of(const yaml::Node& node) {
  std::vector<int64_t> values;
  const auto add = [&values](yaml::Node scalar) {
    scalar.quoted = false;
    if (const auto value = yaml::decode_integer(scalar)) values.push_back(*value);
  };
  for (const yaml::Node& item : node.items) add(item);
  if (!node.is_scalar()) return values;
  std::string_view rest = node.text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('x'), rest.size());
    yaml::Node part;
    part.kind = yaml::Kind::kScalar;
    part.text = std::string(rest.substr(0, end));
    add(std::move(part));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return values;
}

class BindingCheck {
 public:
  BindingCheck(const MatrixEntry& entry, const std::vector<PointView>& views, const Checkout& checkout,
               diag::Diagnostics& out)
      : entry_(entry), views_(views), checkout_(checkout), out_(out) {}

  void run() {
    check_runner();
    check_pin();
    for (const PointView& view : views_) {
      check_fit(view);
      check_curve(view);
      if (const RecipeVariant* variant = find_recipe(view)) check_recipe(view, *variant);
    }
  }

 private:
  void report(RuleId rule, yaml::Range where, std::string path, std::string message, std::string help = {}) {
    out_.add(finding(rule, *entry_.document, where, std::move(path), std::move(message), std::move(help)));
  }

  void check_runner() {
    if (!entry_.runner || checkout_.runners.document == nullptr) return;
    const Runners& runners = checkout_.runners;
    if (runners.find_label(*entry_.runner) != nullptr) return;
    std::vector<std::string_view> names;
    for (const RunnerLabel& label : runners.labels) names.push_back(label.name);
    const auto nearest = base::nearest(*entry_.runner, names);
    diag::Diagnostic d = finding(
        rule::matrix_unknown_runner, *entry_.document, entry_.runner.where, entry_.key + ".runner",
        fmt::format("runner \"{}\" is no label of {}", *entry_.runner, runners.document->name()),
        nearest ? fmt::format("did you mean \"{}\"?", *nearest) : "add the label and its machines to the runner file");
    // A file from elsewhere may belong to other runners.
    if (entry_.outside_root && !runners.outside_root) d.severity = diag::Severity::kWarning;
    out_.add(std::move(d));
  }

  void check_pin() {
    if (!entry_.revision || !entry_.model || checkout_.find_pin(*entry_.model, *entry_.revision) != nullptr) return;
    const auto other = std::find_if(checkout_.pins.begin(), checkout_.pins.end(),
                                    [&](const Pin& pin) { return pin.model.value == *entry_.model; });
    std::string help = "make one with `sweepctl weights pin`";
    if (other != checkout_.pins.end()) help = fmt::format("{} pins revision {}", other->file, other->revision.value);
    report(rule::binding_pin_missing, entry_.revision.where, entry_.key + ".revision",
           fmt::format("no pin in matrix/models/ for \"{}\" at revision {}", *entry_.model, *entry_.revision),
           std::move(help));
  }

  // GPUs of one node of the entry's runner; 0 if not known.
  int64_t gpus_per_node() const {
    if (const RunnerHardware* hardware = checkout_.runners.find_hardware(entry_.runner.value))
      return hardware->gpus_per_node.value;
    return 0;
  }

  void check_fit(const PointView& view) {
    const int64_t node = gpus_per_node();
    if (node < 1) return;
    const Point& point = *view.point;
    if (!point.is_multi_node()) {
      if (point.gpus() > node && point.tp)
        report_fit(point.tp.where, view.path, point.gpus(), "tp x pp x pcp-size", node);
      return;
    }
    for (const auto& [worker, role] : {std::pair{&point.prefill, ".prefill"}, std::pair{&point.decode, ".decode"}}) {
      if (!*worker) continue;
      const int64_t gpus = (*worker)->gpus_per_worker();
      if (gpus > node && gpus % node != 0)
        report_fit((*worker)->tp.where, view.path + role, gpus, "a worker over several nodes", node);
    }
  }

  void report_fit(yaml::Range where, std::string path, int64_t gpus, std::string_view what, int64_t node) {
    report(rule::matrix_gpus_do_not_fit, where, std::move(path),
           fmt::format("{} GPUs ({}) do not fit on nodes of {} GPUs of runner \"{}\"", gpus, what, node,
                       entry_.runner.value),
           "lower tp, pp or pcp-size, or describe a multi-node entry");
  }

  void check_curve(const PointView& view) {
    const auto& acceptance = entry_.acceptance_of(*view.point);
    if (!acceptance || !acceptance->source || *acceptance->source != AcceptanceSource::kGolden) return;
    const Integer& drafts = entry_.draft_tokens_of(*view.point);
    if (!drafts) return;
    for (const AcceptanceCurve& curve : checkout_.curves) {
      if (!curve.is_for(entry_)) continue;
      if (std::any_of(curve.lengths.begin(), curve.lengths.end(), [&](const auto& l) { return l.first == *drafts; }))
        return;
    }
    report(rule::acceptance_no_curve, acceptance->source.where, entry_.key + ".acceptance.source",
           fmt::format("no golden acceptance length for \"{}\" with {} draft tokens", entry_.model.value, *drafts),
           "add a curve to matrix/acceptance/, or use source: measured");
  }

  const RecipeVariant* find_recipe(const PointView& view) {
    const Text& reference = entry_.recipe_of(*view.point);
    if (!reference) return nullptr;
    const std::string path = (view.point->recipe ? view.path : entry_.key) + ".recipe";
    const RecipeReference parsed = parse_recipe_reference(*reference);
    const RecipeFile* file = checkout_.find_recipe(parsed.path);
    if (file == nullptr) {
      std::vector<std::string_view> names;
      for (const RecipeFile& recipe : checkout_.recipes) names.push_back(recipe.path);
      const auto nearest = base::nearest(parsed.path, names);
      report(rule::binding_recipe_missing, reference.where, path,
             fmt::format("recipe \"{}\" does not exist", parsed.path),
             nearest ? fmt::format("did you mean \"{}\"?", *nearest) : "recipe paths are relative to the checkout");
      return nullptr;
    }
    const RecipeVariant* variant = file->find(parsed.selector);
    if (variant != nullptr) return variant;
    std::string selectors;
    for (const RecipeVariant& v : file->variants) selectors += (selectors.empty() ? "" : ", ") + v.selector;
    report(rule::binding_recipe_missing, reference.where, path,
           parsed.selector.empty() ? fmt::format("recipe \"{}\" has several variants and none is named", parsed.path)
                                   : fmt::format("recipe \"{}\" has no variant \"{}\"", parsed.path, parsed.selector),
           selectors.empty() ? "the file has no variants" : fmt::format("its variants: {}", selectors));
    return nullptr;
  }

  // Both places of a disagreement.
  void mismatch(RuleId rule, yaml::Range entry_where, std::string path, std::string message, const RecipeFile& file,
                yaml::Range recipe_where) {
    diag::Diagnostic d = finding(rule, *entry_.document, entry_where, std::move(path), std::move(message),
                                 "change the matrix entry or the recipe so that both say the same");
    d.notes.push_back({"the recipe says so here", file.document->span(recipe_where)});
    out_.add(std::move(d));
  }

  void check_recipe(const PointView& view, const RecipeVariant& variant) {
    const RecipeFile& file = *checkout_.find_recipe(parse_recipe_reference(*entry_.recipe_of(*view.point)).path);
    check_identity(file, variant.recipe);
    check_gpus(view, file, variant.recipe);
    check_parallelism(view, file, variant.recipe);
    check_draft_tokens(view, file, variant.recipe);
    if (view.fixed != nullptr) check_benchmark(view, file, variant.recipe);
  }

  void compare_text(RuleId rule, std::string_view field_name, const Text& ours, const Text& theirs,
                    const RecipeFile& file, std::string_view recipe_field) {
    if (!ours || !theirs || *ours == *theirs) return;
    mismatch(
        rule, ours.where, fmt::format("{}.{}", entry_.key, field_name),
        fmt::format("\"{}\" is \"{}\", \"{}\" of {} is \"{}\"", field_name, *ours, recipe_field, file.path, *theirs),
        file, theirs.where);
  }

  void check_identity(const RecipeFile& file, const Recipe& recipe) {
    if (recipe.model) {
      if (is_image_reference(recipe.model->container.value))
        compare_text(rule::binding_image_mismatch, "image", entry_.image, recipe.model->container, file,
                     "model.container");
      compare_text(rule::binding_precision_mismatch, "precision", entry_.precision, recipe.model->precision, file,
                   "model.precision");
      check_model_path(file, recipe.model->path);
    }
    if (!recipe.identity) return;
    if (recipe.identity->container)
      compare_text(rule::binding_image_mismatch, "image", entry_.image, recipe.identity->container->image, file,
                   "identity.container.image");
    if (!recipe.identity->model) return;
    compare_text(rule::binding_model_mismatch, "model", entry_.model, recipe.identity->model->repo, file,
                 "identity.model.repo");
    compare_text(rule::binding_revision_mismatch, "revision", entry_.revision, recipe.identity->model->revision, file,
                 "identity.model.revision");
  }

  // "hf:ORG/NAME" and "ORG/NAME" name a repository; an alias or a folder does not.
  void check_model_path(const RecipeFile& file, const Text& path) {
    constexpr std::string_view kHub = "hf:";
    Text repo = path;
    if (repo.value.starts_with(kHub))
      repo.value.erase(0, kHub.size());
    else if (repo.value.starts_with('/') || repo.value.starts_with('.') ||
             std::count(repo.value.begin(), repo.value.end(), '/') != 1)
      return;
    compare_text(rule::binding_model_mismatch, "model", entry_.model, repo, file, "model.path");
  }

  void check_gpus(const PointView& view, const RecipeFile& file, const Recipe& recipe) {
    if (!recipe.resources) return;
    const RecipeResources& resources = *recipe.resources;
    const GpuType* ours = gpu_type_of_runner(entry_.runner.value);
    const std::string_view expected = ours == nullptr ? "none" : ours->name;
    if (resources.gpu_type && (ours != nullptr || entry_.is_embedded()) && *resources.gpu_type != expected)
      mismatch(rule::binding_gpu_type_mismatch, entry_.runner.where, entry_.key + ".runner",
               fmt::format("runner \"{}\" has GPU type {}, \"resources.gpu_type\" of {} is \"{}\"", entry_.runner.value,
                           expected, file.path, *resources.gpu_type),
               file, resources.gpu_type.where);
    const Point& point = *view.point;
    if (point.is_multi_node()) {
      compare_worker_gpus(view, point.prefill, "prefill", resources.prefill_nodes, resources.prefill_workers,
                          resources.gpus_per_prefill, file, resources);
      compare_worker_gpus(view, point.decode, "decode", resources.decode_nodes, resources.decode_workers,
                          resources.gpus_per_decode, file, resources);
      return;
    }
    const int64_t per_node = resources.gpus_per_node.value_or(4);
    const int64_t theirs = resources.gpus_per_agg ? *resources.gpus_per_agg * resources.agg_workers.value_or(1)
                                                  : resources.agg_nodes.value_or(1) * per_node;
    const int64_t gpus = entry_.is_embedded() ? 0 : point.gpus();
    if (gpus != theirs)
      mismatch(rule::binding_gpu_count_mismatch, point.tp ? point.tp.where : point.where, view.path,
               fmt::format("the point uses {} GPUs, {} provides {}", gpus, file.path, theirs), file,
               resources.gpus_per_agg ? resources.gpus_per_agg.where : resources.where);
  }

  void compare_worker_gpus(const PointView& view, const std::optional<Worker>& worker, std::string_view role,
                           const Integer& nodes, const Integer& workers, const Integer& gpus_per_worker,
                           const RecipeFile& file, const RecipeResources& resources) {
    if (!worker) return;
    const int64_t theirs = gpus_per_worker ? *gpus_per_worker * workers.value_or(1)
                                           : nodes.value_or(0) * resources.gpus_per_node.value_or(4);
    if (worker->gpus() == theirs) return;
    mismatch(rule::binding_gpu_count_mismatch, worker->where, fmt::format("{}.{}", view.path, role),
             fmt::format("the {} workers use {} GPUs, {} provides {}", role, worker->gpus(), file.path, theirs), file,
             gpus_per_worker ? gpus_per_worker.where : resources.where);
  }

  void check_parallelism(const PointView& view, const RecipeFile& file, const Recipe& recipe) {
    const Point& point = *view.point;
    const auto compare = [&](const Integer& ours, int64_t our_default, const Integer& theirs, std::string_view name,
                             const std::string& path, yaml::Range where) {
      const int64_t value = ours.value_or(our_default);
      if (theirs && *theirs != value)
        mismatch(rule::binding_parallelism_mismatch, ours ? ours.where : where, fmt::format("{}.{}", path, name),
                 fmt::format("\"{}\" is {}, the engine flags of {} say {}", name, value, file.path, *theirs), file,
                 theirs.where);
    };
    if (!point.is_multi_node()) {
      const EngineFlags flags = read_engine_flags(recipe, Role::kAggregated);
      compare(point.tp, 1, flags.tp, "tp", view.path, point.where);
      compare(point.ep, 1, flags.ep, "ep", view.path, point.where);
      return;
    }
    for (const auto& [worker, role, name] : {std::tuple{&point.prefill, Role::kPrefill, ".prefill"},
                                             std::tuple{&point.decode, Role::kDecode, ".decode"}}) {
      if (!*worker) continue;
      const EngineFlags flags = read_engine_flags(recipe, role);
      compare((*worker)->tp, 1, flags.tp, "tp", view.path + name, (*worker)->where);
      compare((*worker)->ep, 1, flags.ep, "ep", view.path + name, (*worker)->where);
    }
  }

  void check_draft_tokens(const PointView& view, const RecipeFile& file, const Recipe& recipe) {
    const Integer& drafts = entry_.draft_tokens_of(*view.point);
    const EngineFlags flags =
        read_engine_flags(recipe, view.point->is_multi_node() ? Role::kDecode : Role::kAggregated);
    if (!drafts || !flags.draft_tokens || *drafts == *flags.draft_tokens) return;
    mismatch(rule::binding_draft_tokens_mismatch, drafts.where,
             (view.point->num_draft_tokens ? view.path : entry_.key) + ".num-draft-tokens",
             fmt::format("\"num-draft-tokens\" is {}, the engine flags of {} say {}", *drafts, file.path,
                         *flags.draft_tokens),
             file, flags.draft_tokens.where);
  }

  void check_benchmark(const PointView& view, const RecipeFile& file, const Recipe& recipe) {
    if (!recipe.benchmark) return;
    const RecipeBenchmark& benchmark = *recipe.benchmark;
    const auto compare = [&](const Integer& ours, const Integer& theirs, std::string_view name) {
      if (ours && theirs && *ours != *theirs)
        mismatch(rule::binding_lengths_mismatch, ours.where, fmt::format("{}.{}", view.block_path, name),
                 fmt::format("\"{}\" is {}, \"benchmark.{}\" of {} is {}", name, *ours, name, file.path, *theirs), file,
                 theirs.where);
    };
    compare(view.fixed->isl, benchmark.isl, "isl");
    compare(view.fixed->osl, benchmark.osl, "osl");
    if (entry_.exact_lengths.value_or(true)) check_exact_lengths(view, file, benchmark);
    if (benchmark.concurrencies == nullptr) return;
    const std::vector<int64_t> theirs = concurrencies_of(*benchmark.concurrencies);
    for (const int64_t value : schema::concurrencies_of(*view.point)) {
      if (std::find(theirs.begin(), theirs.end(), value) != theirs.end()) continue;
      mismatch(rule::binding_concurrency_mismatch,
               view.point->has_conc_list() ? view.point->conc_list->front().where : view.point->where,
               view.path + (view.point->has_conc_list() ? ".conc-list" : ""),
               fmt::format("concurrency {} is not among \"benchmark.concurrencies\" of {}", value, file.path), file,
               benchmark.concurrencies->where);
    }
  }

  void check_exact_lengths(const PointView& view, const RecipeFile& file, const RecipeBenchmark& benchmark) {
    if (benchmark.type.value != "sa-bench") return;  // other clients have settings of their own
    constexpr double kDefaultRangeRatio = 0.8;       // srt-slurm
    const double ratio = benchmark.random_range_ratio.value_or(kDefaultRangeRatio);
    if (ratio < 1)
      mismatch(
          rule::binding_lengths_mismatch, view.fixed->isl.where, view.block_path + ".isl",
          fmt::format("exact lengths need \"benchmark.random_range_ratio: 1.0\" in {}, it is {}", file.path, ratio),
          file, benchmark.random_range_ratio ? benchmark.random_range_ratio.where : benchmark.where);
    if (benchmark.use_chat_template.value_or(true))
      mismatch(rule::binding_lengths_mismatch, view.fixed->isl.where, view.block_path + ".isl",
               fmt::format("exact lengths need \"benchmark.use_chat_template: false\" in {}", file.path), file,
               benchmark.use_chat_template ? benchmark.use_chat_template.where : benchmark.where);
  }

  const MatrixEntry& entry_;
  const std::vector<PointView>& views_;
  const Checkout& checkout_;
  diag::Diagnostics& out_;
};

}  // namespace

void check_images(const Checkout& checkout, diag::Diagnostics& out) {
  struct Use {
    const MatrixEntry* first;
    size_t count;
  };
  std::vector<Use> uses;
  std::map<std::pair<const yaml::Document*, std::string_view>, size_t> index;
  for (const MatrixEntry& entry : checkout.entries) {
    if (!needs_pinning(entry)) continue;
    const auto [found, added] =
        index.emplace(std::pair{entry.document.get(), std::string_view(*entry.image)}, uses.size());
    if (added) uses.push_back({&entry, 0});
    ++uses[found->second].count;
  }
  for (const auto& [first, count] : uses)
    out.add(finding(rule::matrix_image_unpinned, *first->document, first->image.where, first->key + ".image",
                    fmt::format("image \"{}\" is not pinned by digest{}", *first->image,
                                count > 1 ? fmt::format(" ({} entries use it)", count) : std::string()),
                    "append @sha256:... once the digest is known; a tag can move to other content"));
}

void check_bindings(const MatrixEntry& entry, const std::vector<PointView>& views, const Checkout& checkout,
                    diag::Diagnostics& out) {
  BindingCheck(entry, views, checkout, out).run();
}

}  // namespace sweep::schema
