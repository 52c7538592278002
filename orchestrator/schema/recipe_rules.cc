// Rules over the sections of one recipe (NVIDIA/srt-slurm, src/srtctl/core/schema.py and validation).
#include "orchestrator/schema/recipe_rules.h"

#include <fmt/format.h>

#include <set>

#include "orchestrator/diag/rules/schema.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr double kMostSecondsBetweenSamples = 3;
constexpr int64_t kDefaultGpusPerNode = 4;

const yaml::Node* child(const yaml::Node& tree, std::initializer_list<std::string_view> path) {
  const yaml::Node* node = &tree;
  for (const std::string_view part : path) {
    node = node->find(part);
    if (node == nullptr) return nullptr;
  }
  return node;
}

bool is_true(const yaml::Node* node) {
  return node != nullptr && node->is_scalar() && node->text == "true";
}

std::string text_of(const yaml::Node* node) {
  return node != nullptr && node->is_scalar() ? node->text : std::string();
}

class RecipeCheck {
 public:
  RecipeCheck(const RecipeFile& file, const RecipeVariant& variant, diag::Diagnostics& out)
      : file_(file), tree_(*variant.tree), recipe_(variant.recipe), out_(out) {}

  void run() {
    if (recipe_.resources) check_topology(*recipe_.resources);
    check_frontend();
    check_dynamo();
    check_benchmark();
    check_telemetry();
  }

 private:
  void report(diag::RuleId id, yaml::Range where, std::string path, std::string message, std::string help = {}) {
    out_.add(finding(id, *file_.document, where, std::move(path), std::move(message), std::move(help)));
  }

  static const Integer* first_stated(std::initializer_list<const Integer*> values) {
    for (const Integer* value : values)
      if (value->stated()) return value;
    return nullptr;
  }

  void check_topology(const RecipeResources& r) {
    const Integer* split = first_stated({&r.prefill_nodes, &r.decode_nodes, &r.prefill_workers, &r.decode_workers,
                                         &r.gpus_per_prefill, &r.gpus_per_decode});
    const Integer* shared = first_stated({&r.agg_nodes, &r.agg_workers, &r.gpus_per_agg});
    if (split != nullptr && shared != nullptr) {
      diag::Diagnostic d = finding(rule::recipe_topology, *file_.document, shared->where, "resources",
                                   "aggregated and disaggregated resources in one recipe",
                                   "keep agg_*, or prefill_* and decode_*; an override sets the others to null");
      d.notes.push_back({"disaggregated resources are stated here", file_.document->span(split->where)});
      out_.add(std::move(d));
      return;
    }
    if (split == nullptr) {
      const int64_t nodes = r.agg_nodes.value_or(1);
      check_role("agg", r.agg_nodes, nodes, r.agg_workers, r.gpus_per_agg, r);
      return;
    }
    if (!r.prefill_nodes.stated() && !r.decode_nodes.stated())
      report(rule::recipe_topology, r.where, "resources", "neither \"prefill_nodes\" nor \"decode_nodes\" is stated",
             "state the nodes of each role");
    if (may_colocate()) return check_all_nodes(r);
    const bool shares_nodes = r.decode_nodes && *r.decode_nodes == 0;
    check_role("prefill", r.prefill_nodes, r.prefill_nodes.value_or(0), r.prefill_workers, r.gpus_per_prefill, r);
    if (!shares_nodes)
      check_role("decode", r.decode_nodes, r.decode_nodes.value_or(0), r.decode_workers, r.gpus_per_decode, r);
    else if (r.gpus_per_prefill && r.gpus_per_decode && r.prefill_nodes)
      check_shared_nodes(r);
  }

  // vLLM's workers of both roles may share nodes.
  bool may_colocate() const {
    return is_true(child(tree_, {"backend", "allow_prefill_decode_colocation"})) ||
           is_true(child(tree_, {"backend", "allow_prefill_decode_colocation_across_nodes"}));
  }

  void check_all_nodes(const RecipeResources& r) {
    if (!r.gpus_per_prefill || !r.gpus_per_decode) return;
    const int64_t needed =
        *r.gpus_per_prefill * r.prefill_workers.value_or(1) + *r.gpus_per_decode * r.decode_workers.value_or(1);
    const int64_t there =
        (r.prefill_nodes.value_or(0) + r.decode_nodes.value_or(0)) * r.gpus_per_node.value_or(kDefaultGpusPerNode);
    if (needed > there)
      report(rule::recipe_topology, r.where, "resources",
             fmt::format("prefill and decode workers need {} GPUs, all nodes have {}", needed, there),
             "add nodes, or use fewer GPUs or workers");
  }

  void check_shared_nodes(const RecipeResources& r) {
    const int64_t needed =
        *r.gpus_per_prefill * r.prefill_workers.value_or(1) + *r.gpus_per_decode * r.decode_workers.value_or(1);
    const int64_t there = *r.prefill_nodes * r.gpus_per_node.value_or(kDefaultGpusPerNode);
    if (needed > there)
      report(rule::recipe_topology, r.prefill_nodes.where, "resources.prefill_nodes",
             fmt::format("prefill and decode workers need {} GPUs, the shared nodes have {}", needed, there),
             "add nodes, or give decode nodes of its own");
  }

  void check_role(std::string_view role, const Integer& stated_nodes, int64_t nodes, const Integer& workers,
                  const Integer& gpus, const RecipeResources& r) {
    const std::string path = "resources.";
    if (workers && *workers == 0 && nodes > 0)
      report(rule::recipe_topology, workers.where, fmt::format("{}{}_workers", path, role),
             fmt::format("{} {} node{} and no worker", nodes, role, nodes == 1 ? "" : "s"), "state the workers");
    if (workers.value_or(1) > 0 && nodes == 0 && (workers.stated() || stated_nodes.stated())) {
      const Integer& place = stated_nodes.stated() ? stated_nodes : workers;
      report(rule::recipe_topology, place.where, fmt::format("{}{}_nodes", path, role),
             fmt::format("{} workers and no {} node", role, role), "state the nodes");
      return;
    }
    const int64_t there = nodes * r.gpus_per_node.value_or(kDefaultGpusPerNode);
    const int64_t count = workers.value_or(1);
    if (gpus && *gpus * count > there)
      report(rule::recipe_topology, gpus.where, fmt::format("{}gpus_per_{}", path, role),
             fmt::format("{} {} worker{} of {} GPUs need {}, {} node{} of {} have {}", count, role,
                         count == 1 ? "" : "s", *gpus, *gpus * count, nodes, nodes == 1 ? "" : "s",
                         r.gpus_per_node.value_or(kDefaultGpusPerNode), there),
             "add nodes, or use fewer GPUs or workers");
    else if (!gpus && workers && *workers > 1 && there % *workers != 0)
      report(rule::recipe_topology, workers.where, fmt::format("{}{}_workers", path, role),
             fmt::format("{} GPUs cannot be split evenly among {} {} workers", there, *workers, role),
             fmt::format("state gpus_per_{}", role));
  }

  void check_frontend() {
    const yaml::Node* type = child(tree_, {"frontend", "type"});
    const std::string name = text_of(type);
    const std::string backend = recipe_.backend ? recipe_.backend->type.value : std::string();
    const yaml::Node* several = child(tree_, {"frontend", "enable_multiple_frontends"});
    const auto wrong = [&](const yaml::Node& node, std::string path, std::string message) {
      report(rule::recipe_frontend, node.where, std::move(path), std::move(message),
             "use the frontend dynamo, or change the recipe");
    };
    if (name == "trtllm_serve" || name == "vllm") {
      const std::string_view needed = name == "vllm" ? "vllm" : "trtllm";
      if (backend != needed)
        wrong(*type, "frontend.type",
              fmt::format("the frontend \"{}\" needs the backend \"{}\", found \"{}\"", name, needed,
                          backend.empty() ? "sglang" : backend));
      if (several == nullptr || is_true(several))
        wrong(several == nullptr ? *type : *several, "frontend.enable_multiple_frontends",
              fmt::format("the frontend \"{}\" needs \"enable_multiple_frontends: false\"", name));
      const bool split = recipe_.resources && (recipe_.resources->prefill_nodes || recipe_.resources->decode_nodes);
      if (split || (recipe_.resources && recipe_.resources->agg_workers.value_or(1) != 1))
        wrong(*type, "frontend.type", fmt::format("the frontend \"{}\" serves exactly one aggregated worker", name));
    }
    const yaml::Node* dedicated = child(tree_, {"frontend", "dedicated_node"});
    const yaml::Node* placement = child(tree_, {"frontend", "orchestrator_placement"});
    if (is_true(dedicated) && placement != nullptr && text_of(placement) != "head")
      wrong(*placement, "frontend.orchestrator_placement", "a dedicated frontend node needs the placement \"head\"");
  }

  void check_dynamo() {
    const yaml::Node* dynamo = tree_.find("dynamo");
    if (dynamo == nullptr) return;
    const yaml::Entry* first = nullptr;
    for (const yaml::Entry& entry : dynamo->entries) {
      const bool stated =
          entry.key == "hash" || entry.key == "wheel" || (entry.key == "top_of_tree" && is_true(&entry.value));
      if (!stated || entry.value.is_null()) continue;
      if (first == nullptr) {
        first = &entry;
        continue;
      }
      diag::Diagnostic d = finding(rule::recipe_dynamo, *file_.document, entry.key_where, "dynamo." + entry.key,
                                   fmt::format("\"{}\" beside \"{}\"", entry.key, first->key), "keep one of them");
      d.notes.push_back({"the first source is stated here", file_.document->span(first->key_where)});
      out_.add(std::move(d));
    }
  }

  void check_benchmark() {
    if (!recipe_.benchmark) return;
    const RecipeBenchmark& benchmark = *recipe_.benchmark;
    if (benchmark.type.value == "sa-bench") {
      const auto need = [&](bool stated, std::string_view field) {
        if (!stated)
          report(rule::recipe_benchmark, benchmark.where, "benchmark", fmt::format("\"sa-bench\" needs \"{}\"", field),
                 fmt::format("add {}", field));
      };
      need(benchmark.isl.stated(), "isl");
      need(benchmark.osl.stated(), "osl");
      need(benchmark.concurrencies != nullptr, "concurrencies");
    }
    if (benchmark.concurrencies != nullptr) check_concurrencies(*benchmark.concurrencies);
  }

  void check_concurrencies(const yaml::Node& node) {
    const auto values = recipe_concurrencies(node);
    const auto wrong = [&](std::string message) {
      report(rule::recipe_benchmark, node.where, "benchmark.concurrencies", std::move(message),
             "write a list, or text like \"4x8x16\"");
    };
    if (!values) return wrong("\"concurrencies\" must be positive whole numbers, found " + yaml::describe(node));
    if (values->empty()) return wrong("\"concurrencies\" is empty");
    std::set<int64_t> seen;
    for (const int64_t value : *values)
      if (!seen.insert(value).second) return wrong(fmt::format("concurrency {} is listed twice", value));
  }

  void check_telemetry() {
    const yaml::Node* telemetry = tree_.find("telemetry");
    if (telemetry == nullptr) return;
    const auto wrong = [&](const yaml::Node& node, std::string path, std::string message) {
      report(rule::recipe_telemetry, node.where, "telemetry." + std::move(path), std::move(message));
    };
    if (const yaml::Node* port = child(*telemetry, {"dcgm_exporter", "port"})) {
      const auto value = yaml::decode_integer(*port);
      if (!value || *value < 1 || *value > 65535)
        wrong(*port, "dcgm_exporter.port", "the port must be 1 to 65535, found " + yaml::describe(*port));
    }
    if (const yaml::Node* seconds = telemetry->find("default_frequency")) {
      const auto value = yaml::decode_number(*seconds);
      if (!value || *value <= 0 || *value > kMostSecondsBetweenSamples)
        wrong(*seconds, "default_frequency",
              fmt::format("samples must be more than 0 and at most {} s apart, found {}", kMostSecondsBetweenSamples,
                          yaml::describe(*seconds)));
    }
    if (const yaml::Node* folder = telemetry->find("storage_subdir")) {
      const std::string text = "/" + text_of(folder) + "/";
      if (text.starts_with("//") || text.find("/../") != std::string::npos)
        wrong(*folder, "storage_subdir", "the folder must be relative and stay inside the run");
    }
  }

  const RecipeFile& file_;
  const yaml::Node& tree_;
  const Recipe& recipe_;
  diag::Diagnostics& out_;
};

std::optional<int64_t> positive(std::string_view text) {
  yaml::Node node;
  node.kind = yaml::Kind::kScalar;
  node.text = std::string(text);
  const auto value = yaml::decode_integer(node);
  if (!value || *value < 1) return std::nullopt;
  return *value;
}

}  // namespace

std::optional<std::vector<int64_t>> recipe_concurrencies(const yaml::Node& node) {
  std::vector<int64_t> values;
  const auto add = [&values](std::string_view text) {
    const auto value = positive(text);
    if (value) values.push_back(*value);
    return value.has_value();
  };
  for (const yaml::Node& item : node.items)
    if (!item.is_scalar() || !add(item.text)) return std::nullopt;
  if (node.is_sequence()) return values;
  if (!node.is_scalar()) return std::nullopt;
  std::string_view rest = node.text;
  while (true) {
    const size_t end = std::min(rest.find('x'), rest.size());
    if (!add(rest.substr(0, end))) return std::nullopt;
    if (end == rest.size()) return values;
    rest.remove_prefix(end + 1);
  }
}

void check_recipe(const RecipeFile& file, diag::Diagnostics& out) {
  for (const RecipeVariant& variant : file.variants) {
    // The base of overrides is no recipe by itself: its resources may be incomplete.
    if (variant.selector == "base" && file.variants.size() > 1) continue;
    RecipeCheck(file, variant, out).run();
  }
}

}  // namespace sweep::schema
