// The tile operations over vector registers, written once. A translation unit per instruction set defines `Simd` in its
// anonymous namespace (registers, blocking, conversions) and instantiates VectorTileOps<Simd>; internal linkage keeps
// the copies apart, and nothing here may use inline functions of the standard library: the linker keeps one copy of
// those, possibly one with instructions that the machine does not have.
//
// What Simd provides (Vec = one register of kLanes floats):
//   kLanes, kScoreHeads, kSumHeads, kSumVectors      register blocking of score() and accumulate()
//   load, store, zero, set, add, mul, fmadd(a, b, c) = a * b + c, max(a, b) = b if either is NaN
//   keep_first(v, n, other)                          lanes from n on come from `other`
//   reduce_add, reduce_max                           over the lanes
//   store_sums(v, p)                                 p[i] = sum over the lanes of v[i], i < 4
//   exp(v)                                           for v <= 0 up to rounding, or NaN; 0 below -104
//   widen, e4m3_group, has_e4m3_nan, e2m1_group, narrow
#pragma once

#include "kernels/cpu/tile_ops.h"

namespace flashmla::cpu {

constexpr int32_t kScoreTokens = 4;  // what store_sums() reduces together

template <typename Simd>
struct VectorTileOps {
  using Vec = typename Simd::Vec;
  static constexpr int32_t kLanes = Simd::kLanes;

  // ---- score ----

  // kHeads x 4 dot products. Tokens behind the last one repeat it; their sums land in the unused tail of the row.
  template <int32_t kHeads>
  static void score_block(const float* q, int32_t d_qk, const float* const rows[kScoreTokens], float* scores) {
    const int64_t stride = row_floats(d_qk);
    Vec sums[kHeads][kScoreTokens];
    for (int32_t h = 0; h < kHeads; ++h) {
      for (int32_t t = 0; t < kScoreTokens; ++t) sums[h][t] = Simd::zero();
    }
    for (int32_t i = 0; i < d_qk; i += kLanes) {
      Vec keys[kScoreTokens];
      for (int32_t t = 0; t < kScoreTokens; ++t) keys[t] = Simd::load(rows[t] + i);
      for (int32_t h = 0; h < kHeads; ++h) {
        const Vec query = Simd::load(q + h * stride + i);
        for (int32_t t = 0; t < kScoreTokens; ++t) sums[h][t] = Simd::fmadd(query, keys[t], sums[h][t]);
      }
    }
    for (int32_t h = 0; h < kHeads; ++h) Simd::store_sums(sums[h], scores + h * kTileTokens);
  }

  static void score(const float* q, int32_t heads, int32_t d_qk, const float* tile, int32_t tokens, float* scores) {
    const int64_t stride = row_floats(d_qk);
    for (int32_t t = 0; t < tokens; t += kScoreTokens) {
      const float* keys[kScoreTokens];
      for (int32_t i = 0; i < kScoreTokens; ++i) keys[i] = tile + (t + i < tokens ? t + i : tokens - 1) * stride;
      int32_t h = 0;
      for (; h + Simd::kScoreHeads <= heads; h += Simd::kScoreHeads) {
        score_block<Simd::kScoreHeads>(q + h * stride, d_qk, keys, scores + h * kTileTokens + t);
      }
      for (; h < heads; ++h) score_block<1>(q + h * stride, d_qk, keys, scores + h * kTileTokens + t);
    }
  }

  // ---- softmax ----

  static void softmax(float* scores, int32_t heads, int32_t tokens, float scale, const SoftmaxState& state) {
    const Vec scales = Simd::set(scale);
    const Vec lowest = Simd::set(-__builtin_inff());
    for (int32_t h = 0; h < heads; ++h) {
      float* row = scores + h * kTileTokens;
      Vec maxima = lowest;
      for (int32_t t = 0; t < tokens; t += kLanes) {
        // A NaN score must not become the maximum: max() answers with its second argument.
        const Vec scaled = Simd::keep_first(Simd::mul(Simd::load(row + t), scales), tokens - t, lowest);
        maxima = Simd::max(scaled, maxima);
      }
      const float tile_maximum = Simd::reduce_max(maxima);
      const float old_maximum = state.max[h];
      const float maximum = tile_maximum > old_maximum ? tile_maximum : old_maximum;
      const Vec minus_maximum = Simd::set(-maximum);
      Vec sums = Simd::zero();
      for (int32_t t = 0; t < tokens; t += kLanes) {
        // One rounding from the score to the exponent: this difference decides how exact the LSE is.
        const Vec weights = Simd::exp(Simd::fmadd(Simd::load(row + t), scales, minus_maximum));
        Simd::store(row + t, Simd::keep_first(weights, tokens - t, Simd::zero()));
        sums = Simd::add(sums, Simd::load(row + t));
      }
      float rescale = 1.0F;
      if (maximum != old_maximum) {
        float lanes[kLanes];
        Simd::store(lanes, Simd::exp(Simd::set(old_maximum - maximum)));
        rescale = lanes[0];
      }
      state.rescale[h] = rescale;
      state.sum[h] = state.sum[h] * rescale + Simd::reduce_add(sums);
      state.max[h] = maximum;
    }
  }

  // ---- accumulate ----

  // kHeads x kSumVectors registers of sums over all tokens of the tile.
  template <int32_t kHeads>
  static void accumulate_block(const float* p, const float* tile, int64_t stride, int32_t tokens, const float* rescale,
                               float* out) {
    constexpr int32_t kVectors = Simd::kSumVectors;
    Vec sums[kHeads][kVectors];
    for (int32_t h = 0; h < kHeads; ++h) {
      const Vec factor = Simd::set(rescale[h]);
      for (int32_t v = 0; v < kVectors; ++v) {
        sums[h][v] = Simd::mul(Simd::load(out + h * row_floats(kValueDims) + v * kLanes), factor);
      }
    }
    for (int32_t t = 0; t < tokens; ++t) {
      Vec values[kVectors];
      for (int32_t v = 0; v < kVectors; ++v) values[v] = Simd::load(tile + t * stride + v * kLanes);
      for (int32_t h = 0; h < kHeads; ++h) {
        const Vec weight = Simd::set(p[h * kTileTokens + t]);
        for (int32_t v = 0; v < kVectors; ++v) sums[h][v] = Simd::fmadd(weight, values[v], sums[h][v]);
      }
    }
    for (int32_t h = 0; h < kHeads; ++h) {
      for (int32_t v = 0; v < kVectors; ++v) {
        Simd::store(out + h * row_floats(kValueDims) + v * kLanes, sums[h][v]);
      }
    }
  }

  static void accumulate(const float* p, int32_t heads, const float* tile, int64_t stride, int32_t tokens,
                         const float* rescale, float* out) {
    constexpr int32_t kDims = Simd::kSumVectors * kLanes;
    static_assert(kValueDims % kDims == 0);
    for (int32_t dim = 0; dim < kValueDims; dim += kDims) {
      float* sums = out + dim;
      int32_t h = 0;
      for (; h + Simd::kSumHeads <= heads; h += Simd::kSumHeads) {
        accumulate_block<Simd::kSumHeads>(p + h * kTileTokens, tile + dim, stride, tokens, rescale + h,
                                          sums + h * row_floats(kValueDims));
      }
      for (; h < heads; ++h) {
        accumulate_block<1>(p + h * kTileTokens, tile + dim, stride, tokens, rescale + h,
                            sums + h * row_floats(kValueDims));
      }
    }
  }

  // ---- dequantise ----

  // E4M3 is widened through FP16, whose exponents are 8 higher: the value arrives as 2^-8 of itself, and the scale
  // makes good for it. Exact as long as scale * 2^8 is a normal number; the rest, and NaN, is left to the reference.
  static bool ue8m0_scale(uint8_t code, float* scale) {
    if (code > 246) return false;
    const uint32_t bits = (code + 8U) << 23;
    __builtin_memcpy(scale, &bits, sizeof bits);
    return true;
  }

  static bool fp32_scale(const uint8_t* bytes, float* scale) {
    float stored;
    __builtin_memcpy(&stored, bytes, sizeof stored);
    const float magnitude = __builtin_fabsf(stored);
    if (!(magnitude > 0x1p-90F && magnitude < 0x1p90F)) return false;
    *scale = stored * 256.0F;
    return true;
  }

  template <int32_t kGroups, int32_t kGroupSize>
  static bool ue8m0_groups(const uint8_t* data, const uint8_t* scales, float* row) {
    if (Simd::has_e4m3_nan(data, kGroups * kGroupSize)) return false;
    for (int32_t group = 0; group < kGroups; ++group) {
      float scale;
      if (!ue8m0_scale(scales[group], &scale)) return false;
      Simd::template e4m3_group<kGroupSize>(data + group * kGroupSize, scale, row + group * kGroupSize);
    }
    return true;
  }

  static bool fp32_groups(const uint8_t* data, const uint8_t* scales, float* row) {
    if (Simd::has_e4m3_nan(data, 512)) return false;
    for (int32_t group = 0; group < 4; ++group) {
      float scale;
      if (!fp32_scale(scales + 4 * group, &scale)) return false;
      Simd::template e4m3_group<128>(data + group * 128, scale, row + group * 128);
    }
    return true;
  }

  static void dequantise(flashmla_kv_format format, Record record, float* row) {
    switch (format) {
      case FLASHMLA_KV_V4_584:
        if (!ue8m0_groups<7, 64>(record.data, record.scales, row)) break;
        Simd::widen(record.data + 448, 64, row + 448);
        return;
      case FLASHMLA_KV_V32_656:
        if (!fp32_groups(record.data, record.scales, row)) break;
        Simd::widen(record.data + 528, 64, row + 512);
        return;
      case FLASHMLA_KV_V41_528:
        if (!ue8m0_groups<16, 32>(record.data, record.scales, row)) break;
        return;
      case FLASHMLA_KV_V41_FP4_288:
        for (int32_t group = 0; group < 32; ++group) {
          Simd::e2m1_group(record.data + 8 * group, kE4m3Values.of[record.scales[group]], row + 16 * group);
        }
        return;
    }
    kGenericTileOps.dequantise(format, record, row);
  }

  static void widen(const uint16_t* bf16, int32_t count, float* out) { Simd::widen(bf16, count, out); }

  static constexpr TileOps table(const char* isa) {
    return {isa, widen, dequantise, score, softmax, accumulate, Simd::narrow};
  }
};

}  // namespace flashmla::cpu
