#include "orchestrator/engine/adapter.h"

#include <algorithm>
#include <cmath>

#include "tests/support/catch.h"

using namespace sweep;

namespace {

plan::Job job(plan::Acceptance acceptance) {
  plan::Job job;
  job.model = "org/model";
  job.revision = std::string(40, 'a');
  job.isl = 8192;
  job.osl = 256;
  job.num_draft_tokens = 7;
  job.acceptance = acceptance;
  job.entry = "entry";
  job.recipe = "recipes/r.yaml";
  job.engine_flags = {{"tp-size", "8"},
                      {"speculative-algorithm", "DSPARK"},
                      {"disable-radix-cache", "true", true},
                      {"enable-x", "false", true},
                      {"text", "false"},
                      {"revision", "r"}};
  job.environment = {{"SGLANG_RAGGED_VERIFY_MODE", "static"}};
  return job;
}

engine::Launch render(std::string_view framework, const plan::Job& job) {
  const engine::Framework* found = engine::find_framework(framework);
  REQUIRE(found != nullptr);
  return found
      ->render({.job = job,
                .model_folder = "/models/m",
                .kernel_library = "/cache/lib.so",
                .program_folder = "/bin",
                .run_folder = "/run",
                .seed = 3})
      .value();
}

bool has(const std::vector<std::string>& argv, std::vector<std::string> part) {
  return std::search(argv.begin(), argv.end(), part.begin(), part.end()) != argv.end();
}

bool has_variable(const engine::Launch& launch, const std::string& name, const std::string& value) {
  return std::count(launch.command.environment.begin(), launch.command.environment.end(), std::pair(name, value)) == 1;
}

}  // namespace

TEST_CASE("engine: the embedded engine gets the acceptance as its own options") {
  const auto launch = render("embedded", job({plan::AcceptanceSource::kExplicit, 5.7}));
  CHECK(has(launch.command.argv, {"--acceptance", "explicit", "--acceptance-length", "5.7"}));
  CHECK(has(launch.command.argv, {"--kernels", "/cache/lib.so"}));
  CHECK(has(launch.command.argv, {"--num-draft-tokens", "7"}));
  CHECK(launch.port_file.has_value());
  const auto measured = render("embedded", job({plan::AcceptanceSource::kMeasured, std::nullopt}));
  CHECK(has(measured.command.argv, {"--acceptance", "measured"}));
}

TEST_CASE("engine: SGLang gets the acceptance length, bonus token counted, by environment") {
  const auto launch = render("sglang", job({plan::AcceptanceSource::kExplicit, 5.7}));
  CHECK(has_variable(launch, "SGLANG_SIMULATE_ACC_LEN", "5.7"));
  CHECK(has_variable(launch, "SGLANG_SIMULATE_ACC_METHOD", "match-expected"));
  CHECK(has_variable(launch, "SGLANG_SIMULATE_ACC_TOKEN_MODE", "real-draft-token"));
  CHECK(has_variable(launch, "SGLANG_RAGGED_VERIFY_MODE", "static"));
  const auto measured = render("sglang", job({plan::AcceptanceSource::kMeasured, std::nullopt}));
  for (const auto& [name, value] : measured.command.environment) CHECK_FALSE(contains(name, "SIMULATE"));
}

TEST_CASE("engine: recipe flags become arguments, a switch is a bare flag or nothing") {
  const auto launch = render("sglang", job({plan::AcceptanceSource::kExplicit, 5.7}));
  CHECK(has(launch.command.argv, {"--tp-size", "8"}));
  CHECK(std::count(launch.command.argv.begin(), launch.command.argv.end(), "--disable-radix-cache") == 1);
  CHECK(std::count(launch.command.argv.begin(), launch.command.argv.end(), "--enable-x") == 0);
  CHECK(has(launch.command.argv, {"--text", "false"}));
  CHECK(std::count(launch.command.argv.begin(), launch.command.argv.end(), "--revision") == 1);
}

namespace {

std::string refused(std::string_view framework, const plan::Job& job) {
  const auto launch = engine::find_framework(framework)->render({.job = job,
                                                                 .model_folder = "/models/m",
                                                                 .kernel_library = {},
                                                                 .program_folder = "/bin",
                                                                 .run_folder = "/run",
                                                                 .seed = 3});
  return launch ? std::string("rendered") : std::string(diag::rule_info(launch.error().rule).slug);
}

plan::Job with(plan::Acceptance acceptance, std::vector<plan::Setting> flags) {
  plan::Job result = job(acceptance);
  result.engine_flags = std::move(flags);
  return result;
}

constexpr const char* kDspark = R"({"method":"dspark","num_speculative_tokens":7})";

// Of an engine that forces acceptance, so that each takes the length and refuses it in its own way.
std::vector<plan::Setting> flags_of(std::string_view framework) {
  if (framework == "sglang") return {{"speculative-algorithm", "DSPARK"}};
  if (framework == "vllm") return {{"speculative-config", kDspark}};
  if (framework == "trtllm") return {{"speculative_config", R"({"decoding_type":"DSpark","max_draft_len":7})"}};
  if (framework == "atom") return {{"method", "dspark"}, {"num-speculative-tokens", "7"}};
  return {};
}

}  // namespace

TEST_CASE("engine: every engine refuses a length that its drafts cannot reach") {
  for (const engine::Framework& framework : engine::frameworks()) {
    INFO(framework.name);
    const auto flags = flags_of(framework.name);
    const auto at = [&](double length) {
      return refused(framework.name, with({plan::AcceptanceSource::kExplicit, length}, flags));
    };
    CHECK(at(1.0) == "rendered");
    CHECK(at(8.0) == "rendered");
    CHECK(at(8.1) == "engine/acceptance-range");
    CHECK(at(0.9) == "engine/acceptance-range");
    CHECK(at(std::nan("")) == "engine/acceptance-range");
  }
}

TEST_CASE("engine: a forced length needs a recipe that drafts") {
  for (const char* framework : {"sglang", "vllm", "trtllm", "atom"}) {
    INFO(framework);
    CHECK(refused(framework, with({plan::AcceptanceSource::kExplicit, 5.7}, {})) == "engine/acceptance-unsupported");
    CHECK(refused(framework, with({plan::AcceptanceSource::kMeasured, std::nullopt}, {})) == "rendered");
  }
}

TEST_CASE("engine: vLLM gets the length inside its speculative configuration") {
  const auto launch =
      render("vllm", with({plan::AcceptanceSource::kExplicit, 4.7}, {{"tensor-parallel-size", "8"},
                                                                     {"speculative-config", kDspark},
                                                                     {"no-enable-prefix-caching", "true", true},
                                                                     {"served_model_name", "x"}}));
  CHECK(has(launch.command.argv, {"vllm", "serve", "/models/m", "--served-model-name", "org/model"}));
  CHECK(has(
      launch.command.argv,
      {"--speculative-config", R"({"method":"dspark","num_speculative_tokens":7,"rejection_sample_method":"synthetic",)"
                               R"("synthetic_acceptance_length":4.7})"}));
  CHECK(has(launch.command.argv, {"--tensor-parallel-size", "8", "--no-enable-prefix-caching"}));
  CHECK(std::count(launch.command.argv.begin(), launch.command.argv.end(), "--speculative-config") == 1);
  CHECK(std::count(launch.command.argv.begin(), launch.command.argv.end(), "--served_model_name") == 0);
  CHECK(has_variable(launch, "PYTHONUNBUFFERED", "1"));
  const auto measured =
      render("vllm", with({plan::AcceptanceSource::kMeasured, std::nullopt}, {{"speculative-config", kDspark}}));
  CHECK(has(measured.command.argv, {"--speculative-config", kDspark}));
  CHECK(refused("vllm", with({plan::AcceptanceSource::kExplicit, 4.7}, {{"speculative-config", "{dspark"}})) ==
        "engine/recipe-unusable");
  CHECK(refused("vllm", with({plan::AcceptanceSource::kExplicit, 4.7},
                             {{"speculative-config", R"({"enable_adaptive_verification":true})"}})) ==
        "engine/acceptance-unsupported");
}

TEST_CASE("engine: TensorRT-LLM counts drafts only, and reads its settings from a file") {
  const auto launch = render("trt", with({plan::AcceptanceSource::kExplicit, 5.7},
                                         {{"tensor_parallel_size", "8"},
                                          {"trust_remote_code", "true", true},
                                          {"note", "a: b # c"},
                                          {"speculative_config", R"({"decoding_type":"DSpark","max_draft_len":7})"}}));
  CHECK(has_variable(launch, "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS", "4.7"));
  CHECK(has(launch.command.argv, {"trtllm-serve", "serve", "/models/m"}));
  CHECK(has(launch.command.argv, {"--extra_llm_api_options", "/run/engine-options.yaml"}));
  REQUIRE(launch.files.size() == 1);
  CHECK(launch.files[0].text ==
        "tensor_parallel_size: 8\ntrust_remote_code: true\nnote: \"a: b # c\"\n"
        "speculative_config: {\"decoding_type\":\"DSpark\",\"max_draft_len\":7}\n"
        "enable_iter_perf_stats: true\nreturn_perf_metrics: true\nperf_metrics_max_requests: 1000\n");
  const std::vector<plan::Setting> two_models = {
      {"speculative_config", R"({"decoding_type":"Eagle3","eagle3_one_model":false})"}};
  CHECK(refused("trtllm", with({plan::AcceptanceSource::kExplicit, 5.7}, two_models)) ==
        "engine/acceptance-unsupported");
  CHECK(refused("trtllm", with({plan::AcceptanceSource::kExplicit, 6.0}, two_models)) == "rendered");
}

TEST_CASE("engine: ATOM gets the length as an option, but not beside its confidence schedule") {
  const auto launch = render("atom", with({plan::AcceptanceSource::kExplicit, 5.7}, flags_of("atom")));
  CHECK(has(launch.command.argv, {"python3", "-m", "atom.entrypoints.openai_server", "--model", "/models/m"}));
  CHECK(has(launch.command.argv, {"--spec-decode-acceptance-length", "5.7"}));
  CHECK(has(launch.command.argv, {"--method", "dspark", "--num-speculative-tokens", "7"}));
  CHECK(launch.served_model == "/models/m");
  CHECK(refused("atom", with({plan::AcceptanceSource::kExplicit, 5.7},
                             {{"method", "dspark"}, {"dspark-config", R"({"confidence_schedule":true})"}})) ==
        "engine/acceptance-unsupported");
}

TEST_CASE("engine: the recipe may choose the port") {
  auto changed = job({plan::AcceptanceSource::kExplicit, 5.7});
  changed.engine_flags.push_back({"port", "31007"});
  const auto launch = render("sglang", changed);
  CHECK(launch.base_url == "http://127.0.0.1:31007");
  CHECK(has(launch.command.argv, {"--port", "31007"}));
  CHECK(std::count(launch.command.argv.begin(), launch.command.argv.end(), "--port") == 1);
  for (const char* bad : {"0", "70000", "x", "80 "}) {
    changed.engine_flags.back().value = bad;
    CHECK(refused("sglang", changed) == "engine/recipe-unusable");
  }
}

TEST_CASE("engine: SGLang's counters are switched on once") {
  auto changed = job({plan::AcceptanceSource::kExplicit, 5.7});
  const auto count = [&] {
    const auto launch = render("sglang", changed);
    return std::count(launch.command.argv.begin(), launch.command.argv.end(), "--enable-metrics");
  };
  CHECK(count() == 1);
  changed.engine_flags.push_back({"enable_metrics", "true", true});
  CHECK(count() == 0);  // as the recipe spells it
}

TEST_CASE("engine: an unknown framework has no adapter") {
  CHECK(engine::find_framework("no-such-engine") == nullptr);
}
