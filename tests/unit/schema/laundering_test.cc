// Every way we know to force an acceptance length, or to depart from the model, without the entry saying so.
#include "orchestrator/schema/checkout.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;

namespace {

const std::string kImage = "lmsysorg/sglang:v0.5.17@sha256:" + std::string(64, 'a');

struct ChangedCheckout {
  test::TestDir folder;

  ChangedCheckout() {
    folder.write("matrix/runners.yaml",
                 "labels: { h200: [h200_0], b200: [b200_0], cluster:b200: [b200_0] }\n"
                 "hardware: { h200: { gpus-per-node: 8 }, b200: { gpus-per-node: 8 } }\n");
    folder.write("matrix/acceptance/tiny.yaml", "tiny:\n  thinking_on: { 3: 2.25, 7: 3.5 }\n");
  }

  void entry(const std::string& settings,
             const std::string& point = "tp: 8, spec-decoding: mtp, conc-list: [1]") const {
    folder.write("matrix/x.yaml", "e:\n  image: " + kImage +
                                      "\n  model: example-org/Tiny\n  model-prefix: tiny\n  precision: fp8\n"
                                      "  framework: sglang\n  runner: h200\n  multinode: false\n" +
                                      settings +
                                      "  scenarios: { fixed-seq-len: [{ isl: 1024, osl: 128, search-space: [{ " +
                                      point + " }] }] }\n");
  }

  // An official entry whose recipe has this backend.
  void recipe(const std::string& backend, const std::string& more = {}) const {
    entry("  recipe: recipes/r.yaml\n");
    folder.write("recipes/r.yaml",
                 "name: r\nmodel: { path: tiny, container: tiny, precision: fp8 }\n"
                 "resources: { gpu_type: h200, gpus_per_node: 8 }\nbackend:\n" +
                     backend + more);
  }

  bool reports(std::string_view slug) const {
    const schema::Checkout loaded = schema::load_checkout(folder.path());
    for (const diag::Diagnostic& d : loaded.diagnostics.items())
      if (diag::rule_info(d.rule).slug == slug && d.severity == diag::Severity::kError) return true;
    return false;
  }
};

constexpr const char* kFlags = "tp-size: 8, speculative-algorithm: EAGLE, speculative-num-draft-tokens: 4";

}  // namespace

TEST_CASE("laundering: a recipe cannot force the length of an entry that states none, in any spelling") {
  const std::string sglang = std::string("  sglang_config: { aggregated: { ") + kFlags + " } }\n";
  const std::string vllm_head = "  type: vllm\n  vllm_config:\n    aggregated:\n      tensor-parallel-size: 8\n";
  for (const std::string& backend : std::vector<std::string>{
           "  aggregated_environment: { SGLANG_SIMULATE_ACC_LEN: \"5.7\" }\n" + sglang,
           "  aggregated_environment: { sglang_simulate_acc_len: \"5.7\" }\n" + sglang,
           "  prefill_environment: { SGLANG_SIMULATE_ACC_LEN: \"5.7\" }\n" + sglang,
           "  aggregated_environment: { TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS: \"1.25\" }\n" + sglang,
           vllm_head + "      speculative-config: '{\"method\":\"mtp\",\"num_speculative_tokens\":3,"
                       "\"rejection_sample_method\":\"synthetic\",\"synthetic_acceptance_rates\":[1,1,0.25]}'\n",
           vllm_head + "      speculative_config: { method: mtp, rejection_sample_method: synthetic }\n",
           vllm_head + "      speculative-config.rejection_sample_method: synthetic\n",
           vllm_head + "      --speculative-config: '{\"synthetic-acceptance-length\": \"2.25\"}'\n",
           vllm_head +
               "      extra-args: [\"--speculative-config={\\\"rejection_sample_method\\\":\\\"synthetic\\\"}\"]\n",
           vllm_head + "      extra-args: \"--seed 1 --spec-decode-acceptance-length 2.25\"\n",
           vllm_head + "      spec_decode_acceptance_rate: 0.4\n",
       }) {
    const ChangedCheckout checkout;
    checkout.recipe(backend);
    INFO(backend);
    CHECK(checkout.reports("acceptance/set-in-recipe"));
  }
}

TEST_CASE("laundering: environment of every process, merged and aliased blocks, and overrides count") {
  const std::string sglang = std::string("  sglang_config: { aggregated: { ") + kFlags + " } }\n";
  {
    const ChangedCheckout checkout;
    checkout.recipe(sglang, "environment: { SGLANG_SIMULATE_ACC_LEN: \"5.7\" }\n");
    CHECK(checkout.reports("acceptance/set-in-recipe"));
  }
  {
    const ChangedCheckout checkout;
    checkout.recipe(
        "  prefill_environment: &e { SGLANG_SIMULATE_ACC_LEN: \"5.7\" }\n"
        "  aggregated_environment: { <<: *e, A: b }\n" +
        sglang);
    CHECK(checkout.reports("acceptance/set-in-recipe"));
  }
  {
    const ChangedCheckout checkout;
    checkout.entry("  recipe: recipes/r.yaml:zip_override_z[1]\n");
    checkout.folder.write("recipes/r.yaml",
                          "base:\n  name: r\n  model: { path: tiny, container: tiny, precision: fp8 }\n"
                          "  resources: { gpu_type: h200, gpus_per_node: 8 }\n  backend:\n  " +
                              sglang +
                              "zip_override_z:\n  name: [a, b]\n  backend: { aggregated_environment: { "
                              "SGLANG_SIMULATE_ACC_LEN: [\"-1\", \"5.7\"] } }\n");
    CHECK(checkout.reports("acceptance/set-in-recipe"));
    checkout.entry("  recipe: recipes/r.yaml:zip_override_z[0]\n");
    CHECK_FALSE(checkout.reports("acceptance/set-in-recipe"));  // below 0 the control is off
  }
}

TEST_CASE("laundering: the embedded engine takes no acceptance from a recipe") {
  const ChangedCheckout checkout;
  checkout.recipe(
      "  type: embedded\n  embedded_config: { aggregated: { num-draft-tokens: 3, acceptance-length: 4 } }\n");
  CHECK(checkout.reports("acceptance/set-in-recipe"));
}

TEST_CASE("laundering: additional-settings force nothing") {
  const auto point = [](const std::string& settings) {
    return "spec-decoding: mtp, conc-list: [1], prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false, "
           "additional-settings: [" +
           settings + "] }, decode: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }";
  };
  const auto reports = [&](const std::string& settings, std::string_view slug) {
    const ChangedCheckout checkout;
    checkout.folder.write("matrix/x.yaml",
                          "e:\n  image: " + kImage +
                              "\n  model: example-org/Tiny\n  model-prefix: tiny\n  precision: fp8\n"
                              "  framework: dynamo-sglang\n  runner: b200\n  multinode: true\n  scenarios: { "
                              "fixed-seq-len: [{ isl: 1024, osl: 128, search-space: [{ " +
                              point(settings) + " }] }] }\n");
    INFO(settings);
    return checkout.reports(slug);
  };
  CHECK(reports("\"SGLANG_SIMULATE_ACC_LEN=5.7\"", "acceptance/settings"));
  CHECK(reports("\"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=4.7\"", "acceptance/settings"));
  CHECK(reports("\"SYNTHETIC_ACCEPTANCE=true\", \"SYNTHETIC_ACCEPTANCE_LENGTH=5.7\"", "acceptance/not-golden"));
  CHECK_FALSE(reports("\"SYNTHETIC_ACCEPTANCE=true\", \"SYNTHETIC_ACCEPTANCE_LENGTH=2.25\"", "acceptance/not-golden"));
}

TEST_CASE("laundering: an explicit length needs research-only wherever it stands") {
  const ChangedCheckout checkout;
  checkout.entry("  num-draft-tokens: 7\n",
                 "tp: 8, spec-decoding: mtp, acceptance: { source: explicit, length: 5.7 }, conc-list: [1]");
  CHECK(checkout.reports("acceptance/explicit-needs-research-only"));
  checkout.entry("  num-draft-tokens: 7\n  acceptance: { <<: { length: 5.7 }, source: explicit }\n");
  CHECK(checkout.reports("acceptance/explicit-needs-research-only"));
  checkout.entry("  num-draft-tokens: 7\n  acceptance: { source: explicit, length: \"5.7\" }\n");
  CHECK(checkout.reports("schema/wrong-type"));
  checkout.entry("  num-draft-tokens: 7\n  research-only: \"true\"\n  acceptance: { source: explicit, length: 5.7 }\n");
  CHECK(checkout.reports("schema/wrong-type"));
  CHECK(checkout.reports("acceptance/explicit-needs-research-only"));
}

TEST_CASE("laundering: a recipe's engine flags cannot load another model or revision") {
  const ChangedCheckout checkout;
  for (const char* flag : {"model-path: other-org/Big", "model_path: other-org/Big", "model: hf:other-org/Big"}) {
    checkout.recipe(std::string("  sglang_config: { aggregated: { ") + kFlags + ", " + flag + " } }\n");
    INFO(flag);
    CHECK(checkout.reports("binding/model-mismatch"));
  }
}
