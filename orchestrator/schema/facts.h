// Facts about GPU types, models and engines that rules need. Sources stand beside the tables in facts.cc.
#pragma once

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
  int64_t dspark_block_size = 0;      // draft tokens that the checkpoint's head was trained for
  bool equal_verify_lengths = false;  // verification needs the same number of tokens for each request
};

const ModelFacts* find_model_facts(std::string_view repo);

enum class Engine : uint8_t { kSglang, kVllm, kTrtllm, kAtom, kEmbedded, kOther };

// From a matrix entry's framework: "dynamo-vllm" is vLLM, "trt" is TensorRT-LLM.
Engine engine_of_framework(std::string_view framework);
// From a recipe's backend type.
Engine engine_of_backend(std::string_view type);
std::string_view engine_name(Engine engine);

}  // namespace sweep::schema
