#include "orchestrator/schema/facts.h"

#include "tests/support/catch.h"

using namespace sweep::schema;

TEST_CASE("facts: the GPU type is read from runner labels") {
  CHECK(gpu_type_of_runner("h200")->name == "h200");
  CHECK(gpu_type_of_runner("cluster:b300-nv")->name == "b300");
  CHECK(gpu_type_of_runner("b200-multinode")->name == "b200");
  CHECK(gpu_type_of_runner("h200_0")->name == "h200");
  CHECK(gpu_type_of_runner("local") == nullptr);
  CHECK(gpu_type_of_runner("") == nullptr);
}

TEST_CASE("facts: block-scaled FP4 operands exist from SM 10.0 on") {
  CHECK_FALSE(find_gpu_type("h200")->block_scaled_fp4);
  CHECK(find_gpu_type("b200")->block_scaled_fp4);
  CHECK(find_gpu_type("b300")->block_scaled_fp4);
}

TEST_CASE("facts: frameworks belong to engines") {
  CHECK(engine_of_framework("dynamo-vllm") == Engine::kVllm);
  CHECK(engine_of_framework("trt") == Engine::kTrtllm);
  CHECK(engine_of_framework("unheard-of") == Engine::kOther);
  CHECK(engine_of_backend("") == Engine::kSglang);
}
