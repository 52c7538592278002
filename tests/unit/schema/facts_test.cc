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

TEST_CASE("facts: the release of an engine is read from the image's tag") {
  using sweep::schema::Version;
  CHECK(sweep::schema::version_of_image("lmsysorg/sglang:v0.5.8.post1-cu130-runtime") == Version{0, 5, 8});
  CHECK(sweep::schema::version_of_image("vllm/vllm-openai:v0.30.0@sha256:00") == Version{0, 30, 0});
  CHECK(sweep::schema::version_of_image("nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc18") == Version{1, 3, 0});
  for (const char* unknown :
       {"lmsysorg/sglang:nightly-dev-cu13-20260922-582389ce", "sglang", "localhost:5000/sglang", "x:latest", "x:v1"})
    CHECK_FALSE(sweep::schema::version_of_image(unknown).has_value());
  CHECK(Version{0, 5, 16} > Version{0, 5, 9});
}

TEST_CASE("facts: the day of a nightly image is read from its tag") {
  CHECK(sweep::schema::day_of_image("lmsysorg/sglang:nightly-dev-cu13-20260922-582389ce") == 20260922);
  CHECK_FALSE(sweep::schema::day_of_image("lmsysorg/sglang:v0.5.17").has_value());
  CHECK_FALSE(sweep::schema::day_of_image("x:123456789012").has_value());
}
