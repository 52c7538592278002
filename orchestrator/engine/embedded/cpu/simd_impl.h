// The loops behind simd.h as templates over the vector width. Included by one file per instruction set, each compiled
// with its own flags; everything has internal linkage so that no other file can pick up its code.
#pragma once

#include <cstdint>
#include <cstring>

#include "orchestrator/engine/embedded/cpu/simd.h"

#if defined(__clang__)
#define SWEEPCTL_UNROLL _Pragma("unroll")
#else
#define SWEEPCTL_UNROLL _Pragma("GCC unroll 16")
#endif

namespace sweep::engine::embedded::cpu {
namespace {

template <int kFloats>
struct VectorOf {
  typedef float Type __attribute__((vector_size(kFloats * 4), aligned(4), may_alias));
};

// kFloats: lanes of a vector; kVectors: vectors beside one another; kRows: most rows at once.
template <int kFloats, int kVectors, int kRows>
struct Kernels {
  using Vector = typename VectorOf<kFloats>::Type;
  static constexpr int64_t kPassColumns = int64_t{kFloats} * kVectors;

  template <int kBlockRows>
  static inline void matmul_block(const MatmulArguments& args, const float* panel, int64_t row, int64_t column) {
    Vector sums[kBlockRows][kVectors];
    SWEEPCTL_UNROLL
    for (int r = 0; r < kBlockRows; ++r) {
      SWEEPCTL_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Vector{};
    }
    const float* a = args.a + row * args.a_stride;
    for (int64_t k = 0; k < args.inner; ++k) {
      const float* source = panel + k * kPanelColumns;
      Vector weights[kVectors];
      SWEEPCTL_UNROLL
      for (int v = 0; v < kVectors; ++v) weights[v] = *reinterpret_cast<const Vector*>(source + v * kFloats);
      SWEEPCTL_UNROLL
      for (int r = 0; r < kBlockRows; ++r) {
        const float factor = a[r * args.a_stride + k];
        SWEEPCTL_UNROLL
        for (int v = 0; v < kVectors; ++v) sums[r][v] += factor * weights[v];
      }
    }
    SWEEPCTL_UNROLL
    for (int r = 0; r < kBlockRows; ++r) {
      float* target = args.c + (row + r) * args.c_stride + column;
      SWEEPCTL_UNROLL
      for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(target + v * kFloats) = sums[r][v];
    }
  }

  template <int kBlockRows>
  static inline void matmul_rest(const MatmulArguments& args, const float* panel, int64_t row, int64_t column,
                                 int64_t rows) {
    if constexpr (kBlockRows > 0) {
      if (rows == kBlockRows) {
        matmul_block<kBlockRows>(args, panel, row, column);
      } else {
        matmul_rest<kBlockRows - 1>(args, panel, row, column, rows);
      }
    }
  }

  static void matmul(const MatmulArguments& args) {
    for (int64_t column = 0; column < args.columns; column += kPassColumns) {
      const int64_t in_panel = column % kPanelColumns;
      const float* panel = args.panels + (column - in_panel) * args.inner + in_panel;
      int64_t row = 0;
      for (; row + kRows <= args.rows; row += kRows) matmul_block<kRows>(args, panel, row, column);
      matmul_rest<kRows - 1>(args, panel, row, column, args.rows - row);
    }
  }

  static void index_scores(const IndexScoreArguments& args) {
    constexpr int kColumns = static_cast<int>(kScoreColumns) / kFloats;
    constexpr int kChains = kColumns < 4 ? kColumns : 4;
    for (int64_t column = 0; column < args.columns; column += kFloats * kChains) {
      Vector totals[kChains];
      SWEEPCTL_UNROLL
      for (int v = 0; v < kChains; ++v) totals[v] = Vector{};
      for (int64_t head = 0; head < args.heads; ++head) {
        const float* query = args.queries + head * args.dim;
        Vector sums[kChains];
        SWEEPCTL_UNROLL
        for (int v = 0; v < kChains; ++v) sums[v] = Vector{};
        for (int64_t d = 0; d < args.dim; ++d) {
          const float* key = args.keys + d * args.keys_stride + column;
          SWEEPCTL_UNROLL
          for (int v = 0; v < kChains; ++v) {
            sums[v] += query[d] * *reinterpret_cast<const Vector*>(key + v * kFloats);
          }
        }
        SWEEPCTL_UNROLL
        for (int v = 0; v < kChains; ++v) {
          totals[v] += args.weights[head] * (sums[v] > Vector{} ? sums[v] : Vector{});
        }
      }
      SWEEPCTL_UNROLL
      for (int v = 0; v < kChains; ++v) *reinterpret_cast<Vector*>(args.scores + column + v * kFloats) = totals[v];
    }
  }

  static void to_bf16(const float* from, uint16_t* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, from + i, sizeof bits);
      to[i] = static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
    }
  }

  static void from_bf16(const uint16_t* from, float* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
      std::memcpy(to + i, &bits, sizeof bits);
    }
  }
};

}  // namespace
}  // namespace sweep::engine::embedded::cpu
