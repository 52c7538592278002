#include "orchestrator/schema/engine_flags.h"

#include "orchestrator/schema/kinds.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"

using namespace sweep;
using schema::Role;

namespace {

struct Decoded {
  schema::RecipeFile file;
  const schema::Recipe& recipe() const { return file.variants.front().recipe; }
};

Decoded recipe(const std::string& backend) {
  diag::Diagnostics out;
  const schema::DocumentPtr document = yaml::parse(
      "x.yaml",
      "name: x\nmodel: { path: m, container: c, precision: fp8 }\nresources: { gpu_type: h200 }\nbackend:\n" + backend,
      out);
  REQUIRE(document);
  Decoded decoded{schema::decode_recipe(document, "x.yaml", out)};
  REQUIRE(out.empty());
  return decoded;
}

}  // namespace

TEST_CASE("engine flags: SGLang's DSpark block size is the number of drafts") {
  const Decoded decoded =
      recipe("  type: sglang\n  sglang_config:\n    aggregated: { tp-size: 8, speculative-dspark-block-size: 7 }\n");
  const auto flags = schema::read_engine_flags(decoded.recipe(), Role::kAggregated);
  CHECK(*flags.tp == 8);
  CHECK(*flags.draft_tokens == 7);
  CHECK_FALSE(flags.ep.present);
}

TEST_CASE("engine flags: SGLang's other methods count the target's token, in either spelling") {
  const Decoded decoded =
      recipe("  sglang_config:\n    decode: { tensor_parallel_size: \"4\", speculative-num-draft-tokens: 4 }\n");
  const auto flags = schema::read_engine_flags(decoded.recipe(), Role::kDecode);
  CHECK(*flags.tp == 4);
  CHECK(*flags.draft_tokens == 3);
}

TEST_CASE("engine flags: vLLM's speculative config is JSON in a text") {
  const Decoded decoded = recipe(
      "  type: vllm\n  vllm_config:\n    aggregated:\n      tensor-parallel-size: 8\n      speculative-config: "
      "'{\"num_speculative_tokens\":5,\"enable_adaptive_verification\":true}'\n");
  const auto flags = schema::read_engine_flags(decoded.recipe(), Role::kAggregated);
  CHECK(*flags.draft_tokens == 5);
  CHECK(*flags.adaptive_verification);
}

TEST_CASE("engine flags: broken JSON in vLLM's speculative config gives no flag") {
  const Decoded decoded = recipe("  type: vllm\n  vllm_config:\n    aggregated: { speculative-config: '{\"num' }\n");
  CHECK_FALSE(schema::read_engine_flags(decoded.recipe(), Role::kAggregated).draft_tokens.present);
}

TEST_CASE("engine flags: an environment variable of the role goes before that of every process") {
  const Decoded decoded = recipe("  aggregated_environment: { A: role }\nenvironment: { A: all, B: all }\n");
  CHECK(schema::find_environment(decoded.recipe(), Role::kAggregated, "A")->value.value == "role");
  CHECK(schema::find_environment(decoded.recipe(), Role::kAggregated, "B")->value.value == "all");
  CHECK(schema::find_environment(decoded.recipe(), Role::kAggregated, "C") == nullptr);
}

TEST_CASE("engine flags: the GPUs of a worker follow from each engine's sizes") {
  const Decoded vllm = recipe(
      "  type: vllm\n  vllm_config: { aggregated: { tensor-parallel-size: 2, data-parallel-size: 4, "
      "pipeline-parallel-size: 2, decode-context-parallel-size: 2 } }\n");
  CHECK(schema::read_engine_flags(vllm.recipe(), Role::kAggregated).ranks() == 16);
  const Decoded sglang =
      recipe("  sglang_config: { aggregated: { tp-size: 8, dp-size: 8, enable-dp-attention: true } }\n");
  CHECK(schema::read_engine_flags(sglang.recipe(), Role::kAggregated).ranks() == 8);
}

TEST_CASE("engine flags: speculation is seen under every spelling") {
  for (const char* flag : {"speculative-algorithm: EAGLE", "speculative_algo: EAGLE", "--speculative-num-steps: 3",
                           "speculative-dspark-block-size: 5"}) {
    const Decoded decoded = recipe(std::string("  sglang_config: { aggregated: { ") + flag + " } }\n");
    INFO(flag);
    CHECK(schema::read_engine_flags(decoded.recipe(), Role::kAggregated).speculates);
  }
}
