#include "orchestrator/schema/recipe_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/facts.h"
#include "orchestrator/schema/recipe_rules.h"
#include "orchestrator/schema/rules.h"
#include "orchestrator/schema/settings.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kNoImage = "none";
constexpr int64_t kDefaultGpusPerNode = 4;  // srt-slurm

// An alias of a cluster file has neither; what stands behind it is not known here.
bool is_image_reference(std::string_view container) {
  return container.find(':') != std::string_view::npos || container.find('/') != std::string_view::npos ||
         container == kNoImage;
}

// "docker://", "docker.io/" and enroot's "registry#name" name the same image.
std::string plain_image(std::string_view image) {
  for (const std::string_view prefix : {"docker://", "docker.io/"})
    if (image.starts_with(prefix)) image.remove_prefix(prefix.size());
  std::string plain(image);
  std::replace(plain.begin(), plain.end(), '#', '/');
  return plain;
}

bool same_image(std::string_view a, std::string_view b) {
  return plain_image(a) == plain_image(b);
}

// The repository in "hf:ORG/NAME" or "ORG/NAME"; empty for an alias or a folder.
std::string repository_in(std::string_view path) {
  constexpr std::string_view kHub = "hf:";
  if (path.starts_with(kHub)) return std::string(path.substr(kHub.size()));
  if (path.starts_with('/') || path.starts_with('.') || std::count(path.begin(), path.end(), '/') != 1) return {};
  return std::string(path);
}

}  // namespace

void RecipeComparison::add(Mismatch mismatch) {
  const std::string key = fmt::format("{} {} {} {}", diag::rule_info(mismatch.rule).slug, mismatch.where.begin,
                                      mismatch.ours, mismatch.theirs);
  const auto [found, added] = index_.emplace(key, mismatches_.size());
  if (added)
    mismatches_.push_back(std::move(mismatch));
  else if (mismatches_[found->second].file != mismatch.file)
    ++mismatches_[found->second].more;
}

void RecipeComparison::soften(diag::RuleId rule) {
  if (!mismatches_.empty() && mismatches_.back().rule == rule) mismatches_.back().severity = diag::Severity::kWarning;
}

void RecipeComparison::report() {
  for (const Mismatch& m : mismatches_) {
    diag::Diagnostic d = finding(
        m.rule, *entry_.document, m.where, m.path,
        fmt::format("{}, {} of {} {}{}", m.ours, m.field, m.file->path, m.theirs,
                    m.more == 0 ? "" : fmt::format(", and so in {} more recipe{}", m.more, m.more == 1 ? "" : "s")),
        "change the matrix entry or the recipe so that both say the same");
    d.notes.push_back({"the recipe says so here", m.file->document->span(m.recipe_where)});
    if (m.severity == diag::Severity::kWarning) d.severity = m.severity;
    out_.add(std::move(d));
  }
}

void RecipeComparison::compare(const BoundRecipe& bound) {
  bound_ = &bound;
  const Recipe& recipe = bound.variant->recipe;
  compare_identity();
  compare_engine();
  if (recipe.resources) {
    compare_gpu_type(*recipe.resources);
    compare_nodes(*recipe.resources);
  }
  for (const BoundGroup& group : groups_of(bound)) compare_group(group);
  compare_speculation();
  if (bound.view->fixed != nullptr && recipe.benchmark) compare_benchmark(*bound.view->fixed);
}

void RecipeComparison::compare_text(diag::RuleId rule, std::string_view field_name, const Text& ours,
                                    const Text& theirs, std::string_view recipe_field) {
  if (!ours || !theirs || *ours == *theirs) return;
  add({.rule = rule,
       .where = ours.where,
       .path = fmt::format("{}.{}", entry_.key, field_name),
       .ours = fmt::format("\"{}\" is \"{}\"", field_name, *ours),
       .theirs = fmt::format("is \"{}\"", *theirs),
       .field = fmt::format("\"{}\"", recipe_field),
       .file = bound_->file,
       .recipe_where = theirs.where});
}

void RecipeComparison::compare_repository(const Text& text, std::string_view recipe_field) {
  Text repository = text;
  repository.value = repository_in(text.value);
  repository.present = !repository.value.empty();
  compare_text(rule::binding_model_mismatch, "model", entry_.model, repository, recipe_field);
}

void RecipeComparison::compare_identity() {
  const Recipe& recipe = bound_->variant->recipe;
  const auto compare_image = [&](const Text& theirs, std::string_view field) {
    if (entry_.image && theirs && is_image_reference(*theirs) && !same_image(*entry_.image, *theirs))
      compare_text(rule::binding_image_mismatch, "image", entry_.image, theirs, field);
  };
  if (recipe.model) {
    compare_image(recipe.model->container, "model.container");
    compare_text(rule::binding_precision_mismatch, "precision", entry_.precision, recipe.model->precision,
                 "model.precision");
    // "mxfp4" is a kind of "fp4": the words differ, the width does not.
    if (entry_.precision && recipe.model->precision && recipe.model->precision->ends_with(*entry_.precision))
      soften(rule::binding_precision_mismatch);
    compare_repository(recipe.model->path, "model.path");
  }
  if (!recipe.identity) return;
  if (recipe.identity->container) compare_image(recipe.identity->container->image, "identity.container.image");
  if (!recipe.identity->model) return;
  compare_text(rule::binding_model_mismatch, "model", entry_.model, recipe.identity->model->repo,
               "identity.model.repo");
  compare_text(rule::binding_revision_mismatch, "revision", entry_.revision, recipe.identity->model->revision,
               "identity.model.revision");
}

void RecipeComparison::compare_engine() {
  const Recipe& recipe = bound_->variant->recipe;
  if (!recipe.backend) return;
  const Engine ours = engine_of_framework(entry_.framework.value);
  const Engine theirs = engine_of_backend(recipe.backend->type.value);
  if (ours == Engine::kOther || theirs == Engine::kOther || ours == theirs) return;
  add({.rule = rule::binding_engine_mismatch,
       .where = entry_.framework.where,
       .path = entry_.key + ".framework",
       .ours = fmt::format("\"framework\" is \"{}\"", entry_.framework.value),
       .theirs = fmt::format("starts {}", engine_name(theirs)),
       .field = "\"backend.type\"",
       .file = bound_->file,
       .recipe_where = recipe.backend->type ? recipe.backend->type.where : recipe.backend->where});
}

void RecipeComparison::compare_gpu_type(const RecipeResources& resources) {
  const Point& point = *bound_->view->point;
  const bool own_hardware = (point.prefill && point.prefill->hardware) || (point.decode && point.decode->hardware);
  const GpuType* ours = gpu_type_of_runner(entry_.runner.value);
  const std::string_view expected = ours == nullptr ? "none" : ours->name;
  const bool known = ours != nullptr || entry_.is_embedded();
  if (!resources.gpu_type || own_hardware || !known || *resources.gpu_type == expected) return;
  add({.rule = rule::binding_gpu_type_mismatch,
       .where = entry_.runner.where,
       .path = entry_.key + ".runner",
       .ours = fmt::format("runner \"{}\" has GPU type {}", entry_.runner.value, expected),
       .theirs = fmt::format("is \"{}\"", *resources.gpu_type),
       .field = "\"resources.gpu_type\"",
       .file = bound_->file,
       .recipe_where = resources.gpu_type.where});
}

// Sizes of the allocation that an entry hands to the launcher beside the recipe.
void RecipeComparison::compare_nodes(const RecipeResources& resources) {
  struct Count {
    std::string_view key;
    const Integer& theirs;
    std::string_view field;
  };
  const std::array<Count, 3> counts{{{"PREFILL_NODES", resources.prefill_nodes, "prefill_nodes"},
                                     {"DECODE_NODES", resources.decode_nodes, "decode_nodes"},
                                     {"GPUS_PER_NODE", resources.gpus_per_node, "gpus_per_node"}}};
  const std::vector<Setting> settings = settings_of(*bound_->view);
  for (const Count& count : counts) {
    const Setting* ours = find_setting(settings, count.key);
    if (ours == nullptr || !count.theirs || ours->value == std::to_string(*count.theirs)) continue;
    add({.rule = rule::binding_node_count_mismatch,
         .where = ours->where,
         .path = ours->path,
         .ours = fmt::format("\"{}\" is {}", count.key, ours->value),
         .theirs = fmt::format("is {}", *count.theirs),
         .field = fmt::format("\"resources.{}\"", count.field),
         .file = bound_->file,
         .recipe_where = count.theirs.where});
  }
}

void RecipeComparison::compare_worker_count(const BoundGroup& group, const Integer& theirs, std::string_view field) {
  if (!group.num_worker || !theirs || *group.num_worker == *theirs) return;
  add({.rule = rule::binding_worker_count_mismatch,
       .where = group.num_worker.where,
       .path = group.path + ".num-worker",
       .ours = fmt::format("\"num-worker\" is {}", *group.num_worker),
       .theirs = fmt::format("is {}", *theirs),
       .field = fmt::format("\"resources.{}\"", field),
       .file = bound_->file,
       .recipe_where = theirs.where});
}

// All GPUs of a role, which per-GPU figures divide by. Nodes without workers of their own are shared and tell nothing.
void RecipeComparison::compare_gpus(const BoundGroup& group) {
  const RecipeResources& resources = *bound_->variant->recipe.resources;
  const RoleResources role = resources_of(resources, group.role);
  const int64_t workers = role.workers.value_or(1);
  const int64_t per_node = resources.gpus_per_node.value_or(kDefaultGpusPerNode);
  const bool known = role.gpus || role.nodes.value_or(0) != 0 || entry_.is_embedded();
  const int64_t theirs = role.gpus ? *role.gpus * workers : role.nodes.value_or(0) * per_node;
  const int64_t ours = entry_.uses_no_gpu() ? 0 : group.num_worker.value_or(1) * group.gpus_per_worker();
  // Data-parallel replicas of one worker may be counted as workers: the GPUs are the same.
  const int64_t replicas = read_engine_flags(bound_->variant->recipe, group.role).dp.value_or(1);
  const bool as_replicas = known && ours == theirs && group.num_worker.value_or(1) == workers * replicas;
  if (!as_replicas) compare_worker_count(group, role.workers, fmt::format("{}_workers", role.name));
  if (!known || ours == theirs) return;
  const bool single = !bound_->view->point->is_multi_node();
  add({.rule = rule::binding_gpu_count_mismatch,
       .where = group.where,
       .path = group.path,
       .ours = single ? fmt::format("the point uses {} GPUs", ours)
                      : fmt::format("the {} workers use {} GPU{} (num-worker x tp x pp x pcp-size)",
                                    group.role == Role::kDecode ? "decode" : "prefill", ours, ours == 1 ? "" : "s"),
       .theirs = fmt::format("provide {}", theirs),
       .field = "the resources",
       .file = bound_->file,
       .recipe_where = role.gpus ? role.gpus.where : resources.where});
}

void RecipeComparison::compare_group(const BoundGroup& group) {
  const Recipe& recipe = bound_->variant->recipe;
  if (recipe.resources) {
    if (group.role == Role::kDecode && !is_disaggregated(recipe)) {
      add({.rule = rule::binding_worker_count_mismatch,
           .where = group.num_worker ? group.num_worker.where : group.where,
           .path = group.path + ".num-worker",
           .ours = fmt::format("there are {} decode workers", group.num_worker.value_or(1)),
           .theirs = "are aggregated and have none",
           .field = "the resources",
           .file = bound_->file,
           .recipe_where = recipe.resources->where});
      return;
    }
    compare_gpus(group);
  }
  const EngineFlags flags = read_engine_flags(recipe, group.role);
  if (flags.configured) compare_flags(group, flags);
}

void RecipeComparison::compare_size(const BoundGroup& group, const Integer& ours, const Integer& theirs,
                                    std::string_view name) {
  if (!theirs || ours.value_or(1) == *theirs) return;
  add({.rule = rule::binding_parallelism_mismatch,
       .where = ours ? ours.where : group.where,
       .path = fmt::format("{}.{}", group.path, name),
       .ours = fmt::format("\"{}\" is {}", name, ours.value_or(1)),
       .theirs = fmt::format("say {}", *theirs),
       .field = "the engine flags",
       .file = bound_->file,
       .recipe_where = theirs.where});
}

void RecipeComparison::compare_flags(const BoundGroup& group, const EngineFlags& flags) {
  // vLLM splits the ranks of data-parallel attention between the two sizes; entries state their product as tp.
  const int64_t ranks = flags.tp.value_or(1) * flags.dp.value_or(1);
  // SGLang's context parallelism splits the ranks of its tp, which entries state as a factor of their own.
  const int64_t entry_ranks = group.tp.value_or(1) * group.pcp.value_or(1);
  const bool product = (flags.engine == Engine::kVllm && group.tp.value_or(1) == ranks) ||
                       (flags.engine == Engine::kSglang && entry_ranks == flags.tp.value_or(1));
  if (!product) compare_size(group, group.tp, flags.tp, "tp");
  compare_size(group, group.pp, flags.pp, "pp");
  compare_size(group, group.dcp, flags.dcp, "dcp-size");
  compare_size(group, group.pcp, flags.pcp, "pcp-size");
  if (flags.engine == Engine::kVllm) {
    const yaml::Range where = flags.expert_parallel ? flags.expert_parallel.where : flags.tp.where;
    if (flags.tp || flags.dp)
      compare_size(group, group.ep, {flags.expert_parallel.value ? ranks : 1, where, true}, "ep");
  } else {
    compare_size(group, group.ep, flags.ep, "ep");
  }
  const bool vllm_dp = flags.engine == Engine::kVllm && flags.dp.value_or(1) > 1;
  const bool theirs = flags.engine == Engine::kVllm ? vllm_dp : flags.dp_attn.value;
  const bool known =
      flags.engine == Engine::kVllm || flags.engine == Engine::kSglang || flags.engine == Engine::kTrtllm;
  if (known && group.dp_attn.value != theirs) {
    const yaml::Range where = flags.dp_attn ? flags.dp_attn.where : flags.dp ? flags.dp.where : flags.tp.where;
    add({.rule = rule::binding_parallelism_mismatch,
         .where = group.dp_attn ? group.dp_attn.where : group.where,
         .path = group.path + ".dp-attn",
         .ours = fmt::format("\"dp-attn\" is {}", group.dp_attn.value),
         .theirs = theirs ? "spread attention over data-parallel ranks" : "do not",
         .field = "the engine flags",
         .file = bound_->file,
         .recipe_where = where.end != 0 ? where : bound_->variant->recipe.backend->where});
  }
  if (flags.model) compare_repository(flags.model, "backend: model");
  compare_text(rule::binding_revision_mismatch, "revision", entry_.revision, flags.revision, "backend: revision");
}

void RecipeComparison::compare_speculation() {
  const Recipe& recipe = bound_->variant->recipe;
  const PointView& view = *bound_->view;
  const EngineFlags flags = read_engine_flags(recipe, decoding_role(*bound_));
  if (!flags.configured) return;
  const auto& method = view.point->spec_decoding;
  const bool ours = method.stated() && !(method && *method == SpecDecoding::kNone);
  if (ours != flags.speculates && flags.engine != Engine::kEmbedded && flags.engine != Engine::kOther) {
    const yaml::Range where = flags.method.present           ? flags.method.where
                              : flags.speculation != nullptr ? flags.speculation->where
                                                             : recipe.backend->where;
    add({.rule = rule::binding_speculation_mismatch,
         .where = method ? method.where : view.point->where,
         .path = view.path + ".spec-decoding",
         .ours = fmt::format("\"spec-decoding\" is {}", choice_name(method.value_or(SpecDecoding::kNone))),
         .theirs = flags.speculates ? "draft tokens" : "draft none",
         .field = "the engine flags",
         .file = bound_->file,
         .recipe_where = where});
  }
  const Integer& drafts = entry_.draft_tokens_of(*view.point);
  if (!drafts || !flags.draft_tokens || *drafts == *flags.draft_tokens) return;
  add({.rule = rule::binding_draft_tokens_mismatch,
       .where = drafts.where,
       .path = (view.point->num_draft_tokens ? view.path : entry_.key) + ".num-draft-tokens",
       .ours = fmt::format("\"num-draft-tokens\" is {}", *drafts),
       .theirs = fmt::format("say {}", *flags.draft_tokens),
       .field = "the engine flags",
       .file = bound_->file,
       .recipe_where = flags.draft_tokens.where});
}

void RecipeComparison::compare_benchmark(const FixedSeqLen& fixed) {
  const RecipeBenchmark& benchmark = *bound_->variant->recipe.benchmark;
  const auto compare = [&](const Integer& ours, const Integer& theirs, std::string_view name) {
    if (!ours || !theirs || *ours == *theirs) return;
    add({.rule = rule::binding_lengths_mismatch,
         .where = ours.where,
         .path = fmt::format("{}.{}", bound_->view->block_path, name),
         .ours = fmt::format("\"{}\" is {}", name, *ours),
         .theirs = fmt::format("is {}", *theirs),
         .field = fmt::format("\"benchmark.{}\"", name),
         .file = bound_->file,
         .recipe_where = theirs.where});
  };
  compare(fixed.isl, benchmark.isl, "isl");
  compare(fixed.osl, benchmark.osl, "osl");
  if (entry_.exact_lengths.value_or(!bound_->from_settings)) check_exact_lengths(benchmark);
  if (benchmark.concurrencies != nullptr) compare_concurrencies(benchmark);
}

void RecipeComparison::compare_concurrencies(const RecipeBenchmark& benchmark) {
  const auto theirs = recipe_concurrencies(*benchmark.concurrencies);
  if (!theirs) return;  // reported with the recipe
  const std::vector<int64_t> ours = concurrencies_of(*bound_->view->point);
  const auto missing = [](const std::vector<int64_t>& from, const std::vector<int64_t>& in) {
    std::vector<int64_t> values;
    std::copy_if(from.begin(), from.end(), std::back_inserter(values),
                 [&](int64_t value) { return std::find(in.begin(), in.end(), value) == in.end(); });
    return values;
  };
  const std::vector<int64_t> unknown = missing(ours, *theirs);
  const std::vector<int64_t> unasked = bound_->from_settings ? missing(*theirs, ours) : std::vector<int64_t>{};
  if (unknown.empty() && unasked.empty()) return;
  const Point& point = *bound_->view->point;
  add({.rule = rule::binding_concurrency_mismatch,
       .where = point.has_conc_list() ? point.conc_list->front().where
                : point.conc_start    ? point.conc_start.where
                                      : point.where,
       .path = bound_->view->path + (point.has_conc_list() ? ".conc-list" : ""),
       .ours = fmt::format("the point is measured at {}", fmt::join(ours, ", ")),
       .theirs = fmt::format("are {}", fmt::join(*theirs, ", ")),
       .field = "\"benchmark.concurrencies\"",
       .file = bound_->file,
       .recipe_where = benchmark.concurrencies->where});
}

void RecipeComparison::check_exact_lengths(const RecipeBenchmark& benchmark) {
  if (benchmark.type.value != "sa-bench") return;  // other clients have settings of their own
  constexpr double kDefaultRangeRatio = 0.8;       // srt-slurm
  const auto need = [&](std::string field, std::string theirs, yaml::Range where) {
    add({.rule = rule::binding_lengths_mismatch,
         .where = bound_->view->fixed->isl.where,
         .path = bound_->view->block_path + ".isl",
         .ours = "lengths are exact",
         .theirs = std::move(theirs),
         .field = std::move(field),
         .file = bound_->file,
         .recipe_where = where.end != 0 ? where : benchmark.where});
  };
  const double ratio = benchmark.random_range_ratio.value_or(kDefaultRangeRatio);
  if (ratio < 1)
    need("\"benchmark.random_range_ratio\"", fmt::format("is {} and must be 1.0", ratio),
         benchmark.random_range_ratio.where);
  if (benchmark.use_chat_template.value_or(true))
    need("\"benchmark.use_chat_template\"", "is true and must be false", benchmark.use_chat_template.where);
}

}  // namespace sweep::schema
