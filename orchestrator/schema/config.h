// The typed content of configuration files. Everything here has been decoded by the field tables; cross-field rules
// run on it. Ranges are positions in `document` of the entry, recipe or file that holds them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/schema/choices.h"
#include "orchestrator/schema/decoder.h"
#include "orchestrator/schema/located.h"
#include "orchestrator/yaml/document.h"

namespace sweep::schema {

using DocumentPtr = std::shared_ptr<const yaml::Document>;
using Text = Located<std::string>;
using Integer = Located<int64_t>;
using Number = Located<double>;
using Boolean = Located<bool>;

// ---- matrix ----

struct Component {
  yaml::Range where;
  Text name;
  Text version;
};

struct Acceptance {
  yaml::Range where;
  Located<AcceptanceSource> source;
  Number length;  // mean tokens committed per verification step, the target's own included
};

// A prefill or decode worker group of a multi-node point.
struct Worker {
  yaml::Range where;
  Integer num_worker, tp, pp, dcp_size, pcp_size, ep;
  Boolean dp_attn;
  Text hardware;
  std::vector<Text> additional_settings;

  int64_t gpus_per_worker() const { return tp.value_or(1) * pp.value_or(1) * pcp_size.value_or(1); }
  int64_t gpus() const { return num_worker.value_or(1) * gpus_per_worker(); }
};

// One entry of a search space: a topology and its concurrencies.
struct Point {
  yaml::Range where;
  Integer tp, pp, dcp_size, pcp_size, ep;
  Boolean dp_attn;
  Located<SpecDecoding> spec_decoding;
  Integer num_draft_tokens;
  std::optional<Acceptance> acceptance;
  Integer conc_start, conc_end;
  std::optional<std::vector<Integer>> conc_list;
  std::optional<Component> router;
  Text kv_p2p_transfer;
  Text recipe;
  std::optional<Worker> prefill, decode;
  Located<KvOffloading> kv_offloading;
  std::optional<Component> kv_offload_backend;

  bool has_conc_list() const { return conc_list.has_value() && !conc_list->empty(); }
  bool is_multi_node() const { return prefill.has_value() || decode.has_value(); }
  int64_t gpus() const;
};

struct FixedSeqLen {
  yaml::Range where;
  Integer isl, osl;
  std::vector<Point> search_space;
};

struct AgenticCoding {
  yaml::Range where;
  Number dram_utilization;
  std::vector<Point> search_space;
};

struct Scenarios {
  yaml::Range where;
  std::vector<FixedSeqLen> fixed_seq_len;
  std::vector<AgenticCoding> agentic_coding;
};

struct MatrixEntry {
  yaml::Range where;
  std::string key;
  yaml::Range key_where;
  DocumentPtr document;
  const yaml::Node* source = nullptr;  // as written, in `document`
  bool outside_root = false;           // read from a file that is no part of the checkout

  Text image, model, model_prefix, precision, framework, runner;
  Text revision, recipe;
  Boolean multinode, disagg, research_only, exact_lengths;
  Text authorization;
  std::vector<Text> deviations;
  Located<Status> status;
  Integer num_draft_tokens;
  std::optional<Acceptance> acceptance;
  std::optional<Component> router;
  Text kv_p2p_transfer;
  std::optional<Scenarios> scenarios;

  bool is_ready() const { return status.value_or(Status::kReady) == Status::kReady; }
  bool is_embedded() const { return framework.value == "embedded"; }
  // The embedded engine on a runner without GPUs computes on the CPU, whatever the point says of TP.
  bool uses_no_gpu() const;
  // What holds for a point: its own setting, else the entry's.
  const Integer& draft_tokens_of(const Point& point) const;
  const std::optional<Acceptance>& acceptance_of(const Point& point) const;
  const Text& recipe_of(const Point& point) const;
};

// ---- runners ----

struct RunnerLabel {
  std::string name;
  yaml::Range where;
  std::vector<Text> nodes;
};

struct RunnerHardware {
  std::string name;
  yaml::Range name_where;
  yaml::Range where;
  Integer available_cpu_dram_mib, gpus_per_node;
};

struct Runners {
  DocumentPtr document;
  bool outside_root = false;
  std::vector<RunnerLabel> labels;
  std::vector<RunnerHardware> hardware;

  const RunnerLabel* find_label(std::string_view name) const;
  const RunnerHardware* find_hardware(std::string_view name) const;
};

// ---- recipes ----

struct RecipeModel {
  yaml::Range where;
  Text path, container, precision;
};

struct RecipeResources {
  yaml::Range where;
  Text gpu_type;
  Integer gpus_per_node, prefill_nodes, decode_nodes, prefill_workers, decode_workers, agg_nodes, agg_workers,
      gpus_per_prefill, gpus_per_decode, gpus_per_agg;
};

// Flags of one engine, per role; free mappings whose meaning belongs to the engine.
struct EngineConfig {
  yaml::Range where;
  const yaml::Node* prefill = nullptr;
  const yaml::Node* decode = nullptr;
  const yaml::Node* aggregated = nullptr;
};

struct RecipeBackend {
  yaml::Range where;
  Text type;
  std::vector<NamedText> prefill_environment, decode_environment, aggregated_environment;
  std::optional<EngineConfig> sglang, vllm, trtllm, mocker, embedded;

  // The configuration that `type` selects; null if it is not given.
  const EngineConfig* selected() const;
};

struct RecipeBenchmark {
  yaml::Range where;
  Text type;
  Integer isl, osl, num_prompts_mult, num_warmup_mult;
  Number random_range_ratio;
  Boolean use_chat_template;
  const yaml::Node* concurrencies = nullptr;  // a list of integers, or text like "4x8x16"
};

struct IdentityModel {
  yaml::Range where;
  Text repo, revision;
};
struct IdentityContainer {
  yaml::Range where;
  Text image;
};
struct RecipeIdentity {
  yaml::Range where;
  std::optional<IdentityModel> model;
  std::optional<IdentityContainer> container;
};

// One variant of a recipe file, overrides applied.
struct Recipe {
  yaml::Range where;
  Text name;
  std::optional<RecipeModel> model;
  std::optional<RecipeResources> resources;
  std::optional<RecipeBackend> backend;
  std::optional<RecipeBenchmark> benchmark;
  std::optional<RecipeIdentity> identity;
  std::vector<NamedText> environment;
};

struct RecipeVariant {
  std::string selector;  // "" of a plain file, else "base", "override_x", "zip_override_x[0]"
  std::shared_ptr<const yaml::Node> tree;
  Recipe recipe;
};

struct RecipeFile {
  std::string path;  // relative to the checkout
  DocumentPtr document;
  std::vector<RecipeVariant> variants;

  // The variant that a reference `path[:selector]` names; null if there is none, or several to choose from.
  const RecipeVariant* find(std::string_view selector) const;
};

// ---- acceptance curves, pins, changelog ----

// Golden acceptance lengths of one model in one thinking mode, by number of draft tokens.
struct AcceptanceCurve {
  std::string model;
  std::string mode;  // "thinking_on", "thinking_off"
  yaml::Range where;
  DocumentPtr document;
  std::vector<std::pair<int64_t, Number>> lengths;

  bool is_for(const MatrixEntry& entry) const;
};

// The names under which curves of an entry's model are filed: the repository's in lower case, without its owner
// ("deepseek-v4-pro-0813"), the model prefix, and the peer's name for it.
std::vector<std::string> curve_names_of(const MatrixEntry& entry);

struct PinFile {
  yaml::Range where;
  Text path, sha256, git_blob;
  Integer size;
};

struct PinIndex {
  yaml::Range where;
  Integer total_size, tensor_count;
};

// The short form (a lock file) has no schema_version, index and generator, and no `complete`: what it lists is what is
// there to verify.
struct Pin {
  yaml::Range where;
  std::string file;  // relative to the checkout
  DocumentPtr document;
  Integer schema_version;
  Text model, revision, generator;
  Boolean complete;
  std::vector<PinFile> files;
  std::optional<PinIndex> index;
};

struct ChangelogEntry {
  yaml::Range where;
  DocumentPtr document;
  std::vector<Text> config_keys, description;
  Text pr_link;
  Boolean evals_only, all_evals, append_only;
  Integer eval_min_prefill_ep;
  std::vector<Located<ScenarioKind>> scenario_type;
};

}  // namespace sweep::schema
