// The models that can be made by name.
#include "orchestrator/engine/embedded/model_shapes.h"

#include <set>

#include "orchestrator/engine/embedded/cuda/shard.h"
#include "orchestrator/engine/embedded/kv_layout.h"
#include "orchestrator/engine/embedded/tensors.h"
#include "tests/support/catch.h"

using namespace sweep::engine::embedded;

TEST_CASE("model shapes: each can be run, has a name of its own and a config that is read back as it was") {
  std::set<std::string_view> names;
  for (const ModelShape& shape : model_shapes()) {
    INFO(shape.name);
    CHECK(names.insert(shape.name).second);
    CHECK(config_problem(shape.config).empty());
    const auto read = parse_config(config_text(shape.config), "config.json");
    REQUIRE(read.has_value());
    CHECK(config_text(*read) == config_text(shape.config));
    CHECK(find_model_shape(shape.name) == &shape);
    CHECK(cuda::shard_problem(shape.config, 2).empty());
  }
  CHECK(find_model_shape("v5") == nullptr);
}

TEST_CASE("model shapes: a model's name tells its shape") {
  CHECK(shape_of_model("sweepctl/embedded-v4-pro-tp8") == find_model_shape("v4-pro-tp8"));
  CHECK(shape_of_model("sweepctl/embedded-other") == nullptr);
  CHECK(shape_of_model("deepseek-ai/v4-pro-tp8") == nullptr);
}

TEST_CASE("model shapes: attention has the dimensions of one of eight ranks") {
  const ModelConfig& flash = find_model_shape("v4-flash-tp8")->config;
  CHECK(flash.num_attention_heads == 64 / 8);
  CHECK(flash.hidden_size == 4096);
  CHECK(flash.index_topk == 512);
  const ModelConfig& pro = find_model_shape("v4-pro-tp8")->config;
  CHECK(pro.num_attention_heads == 128 / 8);
  CHECK(pro.hidden_size == 7168);
  CHECK(pro.index_topk == 1024);
  const ModelConfig& glm = find_model_shape("glm-5.2-tp8")->config;
  CHECK(glm.head_dim == 576);
  CHECK(!glm.has_window());
  CHECK(glm.index_topk == 2048);
  // Each of two GPUs then has what one of eight ranks has.
  const ModelConfig& two = find_model_shape("v4-flash-tp8x2")->config;
  const cuda::Shard half = cuda::shard_of(two, 1, 2);
  CHECK(half.heads == flash.num_attention_heads);
  CHECK(half.groups == flash.o_groups);
  CHECK(half.intermediate == flash.intermediate_size);
}

TEST_CASE("model shapes: a model without a window has no tensors for one") {
  for (const TensorSpec& spec : model_tensors(find_model_shape("glm-5.2-tp8")->config)) {
    CHECK(!contains(spec.name, "self_attn.kv_proj"));
  }
}

TEST_CASE("kv layouts: pages are as long as upstream's") {
  CHECK(find_kv_layout("v4_584")->page_stride_bytes(64) == 37'440);
  CHECK(find_kv_layout("v4_584")->page_stride_bytes(256) == 149'760);
  CHECK(find_kv_layout("v4_584")->page_stride_bytes(2) == 1'728);
  CHECK(find_kv_layout("v32_656")->page_stride_bytes(256) == 256 * 656);
  CHECK(find_kv_layout("v41_528")->page_stride_bytes(1) == 1024);
  CHECK(find_kv_layout("v5") == nullptr);
}
