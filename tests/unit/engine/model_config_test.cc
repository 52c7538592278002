#include "orchestrator/engine/embedded/model_config.h"

#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/embedded.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::engine::embedded;

namespace {

std::string problem_after(const std::string& field, const nlohmann::json& value) {
  auto json = nlohmann::json::parse(config_text({}));
  if (value.is_discarded()) {
    json.erase(field);
  } else {
    json[field] = value;
  }
  const auto parsed = parse_config(json.dump(), "config.json");
  if (parsed.has_value()) return "";
  CHECK(parsed.error().rule == diag::rule::embedded_model_invalid);
  return parsed.error().message;
}

}  // namespace

TEST_CASE("model config: what is written is read back") {
  ModelConfig config;
  config.vocab_size = 4096;
  config.compress_ratios = {4, 0, 128};
  config.num_hidden_layers = 3;
  const auto parsed = parse_config(config_text(config), "config.json");
  REQUIRE(parsed.has_value());
  CHECK(config_text(*parsed) == config_text(config));
}

TEST_CASE("model config: every missing, mistyped or impossible field is refused by name") {
  const auto removed = nlohmann::json(nlohmann::json::value_t::discarded);
  for (const char* field : {"vocab_size", "hidden_size", "compress_ratios", "rope_theta", "dspark_block_size",
                            "dspark_target_layer_ids", "architectures"}) {
    INFO(field);
    CHECK(contains(problem_after(field, removed), field));
  }
  CHECK(contains(problem_after("hidden_size", "256"), "hidden_size"));
  CHECK(contains(problem_after("hidden_size", 256.5), "hidden_size"));
  CHECK(contains(problem_after("hidden_size", -1), "hidden_size"));
  CHECK(contains(problem_after("vocab_size", uint64_t{1} << 63), "vocab_size"));
  CHECK(contains(problem_after("head_dim", 576), "head_dim"));
  CHECK(contains(problem_after("num_attention_heads", 129), "num_attention_heads"));
  CHECK(contains(problem_after("o_groups", 3), "o_groups"));
  CHECK(contains(problem_after("compress_ratios", {0, 3}), "ratio 3"));
  CHECK(contains(problem_after("compress_ratios", {0, 4, 4}), "compress_ratios"));
  CHECK(contains(problem_after("compress_ratios", {0, "4"}), "compress_ratios"));
  CHECK(contains(problem_after("dspark_target_layer_ids", {2}), "dspark_target_layer_ids"));
  CHECK(contains(problem_after("eos_token_id", 2048), "2048"));
  CHECK(contains(problem_after("rms_norm_eps", 0), "rms_norm_eps"));
  CHECK(contains(problem_after("rope_theta", 0.5), "rope_theta"));
  CHECK(contains(problem_after("architectures", {"LlamaForCausalLM"}), "architectures"));
  CHECK(contains(problem_after("kv_layout", "v5"), "v5"));
  CHECK(contains(problem_after("kv_layout", 4), "kv_layout"));
  CHECK(contains(problem_after("kv_layout", "v32_656"), "head_dim"));
  CHECK(contains(problem_after("sliding_window", 0), "neither a window"));
  CHECK(problem_after("hidden_size", 512).empty());
  CHECK(problem_after("kv_layout", "v41_528").empty());
}

TEST_CASE("model config: text that is not a JSON object is refused") {
  for (const char* text : {"", "[]", "{", "null", "\xFF"}) {
    INFO(text);
    CHECK(!parse_config(text, "config.json").has_value());
  }
}
