#include "orchestrator/schema/facts.h"

#include <algorithm>
#include <array>

namespace sweep::schema {

namespace {

// Compute capabilities: NVIDIA, "CUDA GPU Compute Capability". Block-scaled FP4 operands exist from SM 10.0 on;
// SM 9.0's wgmma takes FP16, BF16, TF32, FP8 and INT8 only (PTX ISA, wgmma.mma_async and tcgen05.mma).
constexpr auto kGpuTypes = std::to_array<GpuType>({
    {"h100", 9, 0, false},
    {"h200", 9, 0, false},
    {"gh200", 9, 0, false},
    {"b200", 10, 0, true},
    {"gb200", 10, 0, true},
    {"b300", 10, 3, true},
    {"gb300", 10, 3, true},
    {"rtx6000pro", 12, 0, true},
    {"mi300x", 0, 0, false},
    {"mi325x", 0, 0, false},
    {"mi355x", 0, 0, true},
});

// dspark_block_size of the checkpoint's config.json. With Engram tables, DSpark's verification of V4.1 needs the same
// number of tokens for each request (sgl-project/sglang issue 39173).
constexpr auto kModels = std::to_array<ModelFacts>({
    {"deepseek-ai/DeepSeek-V4.1-Flash", 5, true},
});

struct FrameworkName {
  std::string_view name;
  Engine engine;
};
constexpr auto kFrameworks = std::to_array<FrameworkName>({
    {"sglang", Engine::kSglang},
    {"dynamo-sglang", Engine::kSglang},
    {"sglang-disagg", Engine::kSglang},
    {"vllm", Engine::kVllm},
    {"dynamo-vllm", Engine::kVllm},
    {"llmd-vllm", Engine::kVllm},
    {"trt", Engine::kTrtllm},
    {"trtllm", Engine::kTrtllm},
    {"dynamo-trt", Engine::kTrtllm},
    {"atom", Engine::kAtom},
    {"atom-disagg", Engine::kAtom},
    {"embedded", Engine::kEmbedded},
});

template <class Table>
auto find_named(const Table& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

const GpuType* find_gpu_type(std::string_view name) {
  return find_named(kGpuTypes, name);
}

const GpuType* gpu_type_of_runner(std::string_view runner) {
  constexpr std::string_view kCluster = "cluster:";
  if (runner.starts_with(kCluster)) runner.remove_prefix(kCluster.size());
  return find_gpu_type(runner.substr(0, runner.find_first_of("-_")));
}

const ModelFacts* find_model_facts(std::string_view repo) {
  const auto found = std::find_if(kModels.begin(), kModels.end(), [&](const ModelFacts& m) { return m.repo == repo; });
  return found == kModels.end() ? nullptr : &*found;
}

Engine engine_of_framework(std::string_view framework) {
  const FrameworkName* found = find_named(kFrameworks, framework);
  return found == nullptr ? Engine::kOther : found->engine;
}

Engine engine_of_backend(std::string_view type) {
  return type.empty() ? Engine::kSglang : engine_of_framework(type);
}

std::string_view engine_name(Engine engine) {
  switch (engine) {
    case Engine::kSglang:
      return "SGLang";
    case Engine::kVllm:
      return "vLLM";
    case Engine::kTrtllm:
      return "TensorRT-LLM";
    case Engine::kAtom:
      return "ATOM";
    case Engine::kEmbedded:
      return "the embedded engine";
    case Engine::kOther:
      return "this engine";
  }
  return "this engine";
}

}  // namespace sweep::schema
