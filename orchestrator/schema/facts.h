// Facts about GPU types, models and engines that rules need. Sources stand beside the tables in facts.cc.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sweep::schema {

struct GpuType {
  std::string_view name;  // "h200"
  int compute_major = 0;  // 0 for GPUs that are not NVIDIA's
  int compute_minor = 0;
  bool block_scaled_fp4 = false;  // tensor cores take MXFP4/NVFP4 operands
};

const GpuType* find_gpu_type(std::string_view name);

// The GPU type in a runner label: "h200", "cluster:b300-nv" and "b200-multinode" name h200, b300 and b200. Null for
// labels that name none ("local").
const GpuType* gpu_type_of_runner(std::string_view runner);

struct ModelFacts {
  std::string_view repo;
  int64_t dspark_block_size = 0;      // draft tokens that the checkpoint's head was trained for; 0: not known
  bool equal_verify_lengths = false;  // verification needs the same number of tokens for each request
  bool drafts_in_multiples = false;   // vLLM takes multiples of the block size only
  bool fp4_experts = false;           // routed experts are stored as MXFP4
  int64_t expert_intermediate = 0;    // columns of one routed expert
  bool is_v41 = false;                // DeepSeek-V4.1: separate code in every engine
};

const ModelFacts* find_model_facts(std::string_view repo);

enum class Engine : uint8_t { kSglang, kVllm, kTrtllm, kAtom, kEmbedded, kOther };

// From a matrix entry's framework: "dynamo-vllm" is vLLM, "trt" is TensorRT-LLM.
Engine engine_of_framework(std::string_view framework);
// From a recipe's backend type.
Engine engine_of_backend(std::string_view type);
std::string_view engine_name(Engine engine);

// A release like 0.5.16; parts that are not stated are 0.
struct Version {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const Version&) const = default;
};

// The release in an image's tag: "lmsysorg/sglang:v0.5.8.post1-cu130" is 0.5.8. Nothing for nightly and other tags.
std::optional<Version> version_of_image(std::string_view image);

// The day in a nightly tag as YYYYMMDD: "...:nightly-dev-cu13-20260922-582389ce" is 20260922.
std::optional<int64_t> day_of_image(std::string_view image);

}  // namespace sweep::schema
