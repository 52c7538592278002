// The recipe format of srt-slurm (NVIDIA/srt-slurm, src/srtctl/core/schema.py), with the backend `embedded` added.
#include <array>
#include <utility>

#include "orchestrator/schema/kinds.h"
#include "orchestrator/schema/recipe_variants.h"

namespace sweep::schema {

namespace {

constexpr std::array<std::string_view, 5> kBackends{"sglang", "trtllm", "vllm", "mocker", "embedded"};
constexpr std::array<std::string_view, 4> kFrontends{"dynamo", "sglang", "trtllm_serve", "vllm"};
constexpr std::array<std::string_view, 12> kBenchmarks{"manual", "custom",          "sa-bench",     "sglang-bench",
                                                       "router", "mooncake-router", "trace-replay", "mmlu",
                                                       "gpqa",   "gsm8k",           "longbenchv2",  "lm-eval"};

// Far above anything real; they keep products of sizes within 64 bits.
constexpr double kMostRanks = 4096;
constexpr double kMostMultiple = 1'000'000;

Shape texts() {
  return map(any_text()).or_null();
}

const ObjectShape& model_shape() {
  static const ObjectShape shape{
      "the recipe's model",
      "Weights and container.",
      {field<&RecipeModel::path>("path", text(), "alias of the cluster file, folder, or hf:ORG/NAME", Need::kRequired),
       field<&RecipeModel::container>(
           "container", text(), "alias, image file or image reference; \"none\" runs on the host", Need::kRequired),
       field<&RecipeModel::precision>("precision", text(), "number format of the weights", Need::kRequired),
       unbound("stage_dir", text(), "local folder to copy the weights to")}};
  return shape;
}

const ObjectShape& resources_shape() {
  static const ObjectShape shape{
      "the recipe's resources",
      "GPUs, nodes and workers.",
      {field<&RecipeResources::gpu_type>("gpu_type", text(), "h200, b200, ...; none for hosts without",
                                         Need::kRequired),
       field<&RecipeResources::gpus_per_node>("gpus_per_node", integer(0, kMostRanks), "GPUs of a node")
           .by_default("4"),
       field<&RecipeResources::prefill_nodes>("prefill_nodes", integer(0, kMostRanks), "nodes that prefill"),
       field<&RecipeResources::decode_nodes>("decode_nodes", integer(0, kMostRanks), "nodes that decode"),
       field<&RecipeResources::prefill_workers>("prefill_workers", integer(0, kMostRanks), "workers that prefill"),
       field<&RecipeResources::decode_workers>("decode_workers", integer(0, kMostRanks), "workers that decode"),
       field<&RecipeResources::agg_nodes>("agg_nodes", integer(1, kMostRanks), "nodes of aggregated workers")
           .by_default("1"),
       field<&RecipeResources::agg_workers>("agg_workers", integer(1, kMostRanks), "aggregated workers"),
       field<&RecipeResources::gpus_per_prefill>("gpus_per_prefill", integer(1, kMostRanks),
                                                 "GPUs of a prefill worker"),
       field<&RecipeResources::gpus_per_decode>("gpus_per_decode", integer(1, kMostRanks), "GPUs of a decode worker"),
       field<&RecipeResources::gpus_per_agg>("gpus_per_agg", integer(0, kMostRanks), "GPUs of an aggregated worker"),
       unbound("spread_workers", boolean(), "spread workers over nodes"),
       unbound("het_jobs", boolean(), "roles are components of a heterogeneous job")}};
  return shape;
}

const ObjectShape& engine_config_shape() {
  static const ObjectShape shape{
      "an engine configuration",
      "Flags of the engine, per role.",
      {field<&EngineConfig::prefill>("prefill", map(free_form()), "flags of prefill workers"),
       field<&EngineConfig::decode>("decode", map(free_form()), "flags of decode workers"),
       field<&EngineConfig::aggregated>("aggregated", map(free_form()), "flags of aggregated workers")}};
  return shape;
}

const ObjectShape& backend_shape() {
  static const ObjectShape shape{
      "the recipe's backend",
      "The engine and how it is started.",
      {field<&RecipeBackend::type>("type", choice(kBackends), "the engine").by_default("sglang"),
       field<&RecipeBackend::prefill_environment>("prefill_environment", texts(), "environment of prefill workers"),
       field<&RecipeBackend::decode_environment>("decode_environment", texts(), "environment of decode workers"),
       field<&RecipeBackend::aggregated_environment>("aggregated_environment", texts(),
                                                     "environment of aggregated workers"),
       field<&RecipeBackend::sglang>("sglang_config", object(engine_config_shape()), "flags of SGLang"),
       field<&RecipeBackend::vllm>("vllm_config", object(engine_config_shape()), "flags of vLLM"),
       field<&RecipeBackend::trtllm>("trtllm_config", object(engine_config_shape()), "settings of TensorRT-LLM"),
       field<&RecipeBackend::mocker>("mocker_config", object(engine_config_shape()), "settings of the mock engine"),
       field<&RecipeBackend::embedded>("embedded_config", object(engine_config_shape()),
                                       "settings of the embedded engine"),
       unbound("gpu_type", text(), "GPU type, for defaults of the engine"),
       unbound("kv_events_config", free_form(), "KV events"),
       unbound("mooncake_kv_store", free_form(), "Mooncake store"),
       unbound("set_cuda_visible_devices", boolean(), "set CUDA_VISIBLE_DEVICES per worker"),
       unbound("connector", text().or_null(), "KV connector"),
       unbound("allow_prefill_decode_colocation", boolean(), "roles may share a node"),
       unbound("allow_prefill_decode_colocation_across_nodes", boolean(), "roles may share nodes"),
       unbound("dp_launch_mode", text(), "how data-parallel ranks start"),
       unbound("publish_events_and_metrics", boolean(), "publish events"),
       unbound("sequential_node_start", boolean(), "start nodes one after the other"),
       unbound("numa_memory_bind", boolean(), "bind memory to NUMA nodes")}};
  return shape;
}

const ObjectShape& frontend_shape() {
  static const ObjectShape shape{"the recipe's frontend",
                                 "What stands in front of the workers.",
                                 {unbound("type", choice(kFrontends), "kind of frontend"),
                                  unbound("enable_multiple_frontends", boolean(), "several frontends behind a proxy"),
                                  unbound("num_additional_frontends", integer(0), "further frontends"),
                                  unbound("nginx_container", text(), "image of the proxy"),
                                  unbound("nginx_raise_ulimit", boolean(), "raise the proxy's file limit"),
                                  unbound("nginx_session_affinity", boolean(), "keep sessions on one frontend"),
                                  unbound("nginx_session_affinity_header", text(), "header that names the session"),
                                  unbound("nginx_keepalive_timeout", text(), "how long connections stay open"),
                                  unbound("args", map(free_form()).or_null(), "arguments of the frontend"),
                                  unbound("env", texts(), "environment of the frontend"),
                                  unbound("ctx_router", free_form(), "router of context servers"),
                                  unbound("gen_router", free_form(), "router of generation servers"),
                                  unbound("server_config_extra", free_form(), "further server settings"),
                                  unbound("orchestrator_placement", text(), "head or first_decode"),
                                  unbound("dedicated_node", boolean(), "a node of its own")}};
  return shape;
}

const ObjectShape& dynamo_shape() {
  static const ObjectShape shape{
      "the recipe's dynamo section",
      "Which Dynamo is used.",
      {unbound("install", boolean(), "install at start"), unbound("version", text(), "released version, in quotes"),
       unbound("hash", text(), "commit, in quotes"), unbound("top_of_tree", boolean(), "the newest commit"),
       unbound("wheel", text(), "wheel version or path"), unbound("request_plane", text(), "tcp, nats or http"),
       unbound("event_plane", text(), "nats or zmq"), unbound("cargo_patches", free_form(), "patched crates")}};
  return shape;
}

const ObjectShape& benchmark_shape() {
  static const ObjectShape shape{
      "the recipe's benchmark",
      "The load and its size.",
      {field<&RecipeBenchmark::type>("type", choice(kBenchmarks), "the load client"),
       field<&RecipeBenchmark::isl>("isl", integer(1), "prompt tokens"),
       field<&RecipeBenchmark::osl>("osl", integer(1), "output tokens"),
       field<&RecipeBenchmark::concurrencies>("concurrencies", free_form(), "a list, or text like \"4x8x16\""),
       field<&RecipeBenchmark::num_prompts_mult>("num_prompts_mult", integer(1, kMostMultiple),
                                                 "requests of a point = this x concurrency")
           .by_default("10"),
       field<&RecipeBenchmark::num_warmup_mult>("num_warmup_mult", integer(0, kMostMultiple),
                                                "warm-up requests = this x concurrency")
           .by_default("2"),
       field<&RecipeBenchmark::random_range_ratio>("random_range_ratio", positive_number(1), "1.0 for exact lengths")
           .by_default("0.8"),
       field<&RecipeBenchmark::use_chat_template>("use_chat_template", boolean(), "false for exact lengths")
           .by_default("true"),
       unbound("req_rate", free_form(), "requests per second, or inf"),
       unbound("client_placement", text(), "head or last_decode"),
       unbound("client_dedicated_node", boolean(), "a node of its own for the client"),
       unbound("colocate_with_frontend", boolean(), "client beside the frontend"),
       unbound("sweep", free_form(), "parameters of a sweep"),
       unbound("num_examples", integer(1), "examples of an evaluation"),
       unbound("max_tokens", integer(1), "longest answer"),
       unbound("repeat", integer(1), "repetitions"),
       unbound("num_threads", integer(1), "parallel requests of an evaluation"),
       unbound("max_context_length", integer(1), "longest context"),
       unbound("categories", free_form(), "categories of an evaluation"),
       unbound("num_shots", integer(0), "examples in the prompt"),
       unbound("temperature", number(0), "sampling temperature"),
       unbound("top_p", number(0, 1), "nucleus sampling"),
       unbound("top_k", integer(), "top-k sampling"),
       unbound("num_requests", integer(1), "requests"),
       unbound("concurrency", integer(1), "concurrency"),
       unbound("prefix_ratios", free_form(), "shared prefixes"),
       unbound("mooncake_workload", text(), "recorded workload"),
       unbound("ttft_threshold_ms", number(0), "TTFT limit"),
       unbound("itl_threshold_ms", number(0), "ITL limit"),
       unbound("dataset_name", text(), "data set"),
       unbound("dataset_path", text(), "path of the data set"),
       unbound("trace_file", text(), "recorded trace"),
       unbound("custom_tokenizer", text(), "tokenizer of the client"),
       unbound("tokenizer_mode", text(), "mode of the tokenizer"),
       unbound("reuse_http_connections", boolean(), "keep connections open"),
       unbound("command", text(), "command of a custom benchmark"),
       unbound("container_image", text(), "image of the client"),
       unbound("env", texts(), "environment of the client"),
       unbound("aiperf_package", text(), "AIPerf package"),
       unbound("aiperf_args", free_form(), "AIPerf arguments"),
       unbound("export_node_metrics", boolean(), "export node metrics"),
       unbound("aiperf_server_metrics", boolean(), "AIPerf reads the servers' metrics"),
       unbound("slow_down_sleep_time", number(0), "slow-down of decode workers"),
       unbound("slow_down_wait_time", number(0), "wait before the slow-down")}};
  return shape;
}

const ObjectShape& identity_shape() {
  static const ObjectShape model{"the identity's model",
                                 "Where the weights come from.",
                                 {field<&IdentityModel::repo>("repo", text(), "model repository"),
                                  field<&IdentityModel::revision>("revision", text(), "commit of the repository")}};
  static const ObjectShape container{"the identity's container",
                                     "Where the image comes from.",
                                     {field<&IdentityContainer::image>("image", text(), "image reference")}};
  static const ObjectShape shape{"the recipe's identity",
                                 "What the recipe was written for.",
                                 {field<&RecipeIdentity::model>("model", object(model), "the weights"),
                                  field<&RecipeIdentity::container>("container", object(container), "the image"),
                                  unbound("frameworks", texts(), "framework -> version, in quotes")}};
  return shape;
}

}  // namespace

const ObjectShape& recipe_shape() {
  static const ObjectShape slurm{"the recipe's slurm section",
                                 "Slurm settings.",
                                 {unbound("account", text(), "account"), unbound("partition", text(), "partition"),
                                  unbound("time_limit", text(), "time limit, in quotes")}};
  static const ObjectShape health{"the recipe's health check",
                                  "How long to wait for a server.",
                                  {unbound("max_attempts", integer(1), "attempts"),
                                   unbound("interval_seconds", number(0), "seconds between attempts")}};
  static const ObjectShape infra{"the recipe's infra section",
                                 "Services beside the engine.",
                                 {unbound("etcd_nats_dedicated_node", boolean(), "a node of its own for etcd and NATS"),
                                  unbound("nats_max_payload_mb", integer(1), "largest NATS message")}};
  static const ObjectShape shape{
      "a recipe",
      "How an engine is started for one deployment.",
      {field<&Recipe::name>("name", text(), "name of the recipe", Need::kRequired),
       field<&Recipe::model>("model", object(model_shape()), "weights and container", Need::kRequired),
       field<&Recipe::resources>("resources", object(resources_shape()), "GPUs, nodes, workers", Need::kRequired),
       field<&Recipe::backend>("backend", object(backend_shape()), "the engine"),
       field<&Recipe::benchmark>("benchmark", object(benchmark_shape()), "the load"),
       field<&Recipe::identity>("identity", object(identity_shape()), "what the recipe was written for"),
       field<&Recipe::environment>("environment", texts(), "environment of every process"),
       unbound("frontend", object(frontend_shape()), "what stands in front of the workers"),
       unbound("dynamo", object(dynamo_shape()), "which Dynamo is used"),
       unbound("slurm", object(slurm), "Slurm settings"),
       unbound("health_check", object(health), "how long to wait for a server"),
       unbound("infra", object(infra), "services beside the engine"),
       unbound("profiling", free_form(), "profiling"),
       unbound("output", free_form(), "where logs go"),
       unbound("observability", free_form(), "traces and metrics"),
       unbound("telemetry", free_form(), "power telemetry"),
       unbound("container_mounts", free_form(), "host path -> container path"),
       unbound("extra_mount", free_form(), "further mounts"),
       unbound("srun_options", texts(), "options of srun, values in quotes"),
       unbound("sbatch_directives", texts(), "directives of sbatch, values in quotes"),
       unbound("enable_config_dump", boolean(), "write the effective configuration"),
       unbound("setup_script", text(), "script before the engine starts"),
       unbound("reporting", free_form(), "where results are reported"),
       unbound("sweep", free_form(), "parameters of a sweep"),
       unbound("lock", free_form(), "pinned versions")}};
  return shape;
}

RecipeFile decode_recipe(const DocumentPtr& document, std::string path, diag::Diagnostics& out) {
  RecipeFile file;
  file.path = std::move(path);
  file.document = document;
  for (auto& [selector, tree] : expand_variants(*document, out)) {
    RecipeVariant& variant = file.variants.emplace_back();
    variant.selector = selector;
    variant.tree = tree;
    variant.recipe.where = tree->where;
    Decoder decoder(*document, out);
    decoder.read_object(*tree, recipe_shape(), &variant.recipe);
  }
  return file;
}

}  // namespace sweep::schema
