// The record formats of the KV cache, by name. Header only: the CUDA library uses it without the rest of the engine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "flashmla/flashmla.h"

namespace sweep::engine::embedded {

struct KvLayout {
  std::string_view name;  // in config.json and logs
  flashmla_kv_format format;
  int64_t head_dim;       // of queries and latents
  int64_t record_bytes;   // per token
  int64_t page_multiple;  // a page's stride is rounded up to a multiple of it

  int64_t page_stride_bytes(int64_t tokens) const {
    return (tokens * record_bytes + page_multiple - 1) / page_multiple * page_multiple;
  }
};

// Values are the first kValueDim numbers of a latent.
inline constexpr int64_t kValueDim = 512;

inline constexpr std::array<KvLayout, 4> kKvLayouts{{
    {"v4_584", FLASHMLA_KV_V4_584, 512, 584, 576},
    {"v32_656", FLASHMLA_KV_V32_656, 576, 656, 656},
    {"v41_528", FLASHMLA_KV_V41_528, 512, 528, 512},
    {"v41_fp4_288", FLASHMLA_KV_V41_FP4_288, 512, 288, 32},
}};

inline const KvLayout* find_kv_layout(std::string_view name) {
  for (const KvLayout& layout : kKvLayouts) {
    if (layout.name == name) return &layout;
  }
  return nullptr;
}

}  // namespace sweep::engine::embedded
