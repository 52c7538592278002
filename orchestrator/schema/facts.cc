#include "orchestrator/schema/facts.h"

#include <algorithm>
#include <array>
#include <charconv>

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

// dspark_block_size, expert_dtype and moe_intermediate_size of the checkpoints' config.json. With Engram tables,
// DSpark's verification of V4.1 needs the same number of tokens for each request (sgl-project/sglang issue 39173); vLLM
// reads its n_predict from the block size (vllm/config/speculative.py).
constexpr auto kModels = std::to_array<ModelFacts>({
    {"deepseek-ai/DeepSeek-V4.1-Flash", 5, true, true, true, 2304, true},
    {"deepseek-ai/DeepSeek-V4-Flash-0731", 5, false, false, true, 2048, false},
    {"deepseek-ai/DeepSeek-V4-Flash", 0, false, false, true, 2048, false},
    {"deepseek-ai/DeepSeek-V4-Pro", 0, false, false, true, 3072, false},
    {"deepseek-ai/DeepSeek-V4-Pro-0813", 0, false, false, true, 3072, false},
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

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view tag_of(std::string_view image) {
  const size_t at = image.find('@');
  image = image.substr(0, at);
  const size_t colon = image.rfind(':');
  return colon == std::string_view::npos || image.find('/', colon) != std::string_view::npos ? std::string_view()
                                                                                             : image.substr(colon + 1);
}

// Digits at the beginning of a text, which they leave.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(result.ptr - text.data()));
  return value;
}

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

std::optional<Version> version_of_image(std::string_view image) {
  std::string_view tag = tag_of(image);
  if (tag.starts_with('v')) tag.remove_prefix(1);
  if (tag.empty() || !is_digit(tag[0])) return std::nullopt;
  Version version;
  const auto major = take_number(tag);
  if (!major || !tag.starts_with('.')) return std::nullopt;
  tag.remove_prefix(1);
  const auto minor = take_number(tag);
  if (!minor) return std::nullopt;
  version.major = *major;
  version.minor = *minor;
  if (!tag.starts_with('.')) return version;
  tag.remove_prefix(1);
  if (const auto patch = take_number(tag)) version.patch = *patch;
  return version;
}

std::optional<int64_t> day_of_image(std::string_view image) {
  constexpr size_t kDigits = 8;
  const std::string_view tag = tag_of(image);
  for (size_t i = 0; i + kDigits <= tag.size(); ++i) {
    const std::string_view part = tag.substr(i, kDigits);
    const bool starts = i == 0 || !is_digit(tag[i - 1]);
    const bool ends = i + kDigits == tag.size() || !is_digit(tag[i + kDigits]);
    if (!starts || !ends || !part.starts_with("20") || !std::all_of(part.begin(), part.end(), is_digit)) continue;
    int64_t day = 0;
    std::from_chars(part.data(), part.data() + part.size(), day);
    return day;
  }
  return std::nullopt;
}

}  // namespace sweep::schema
