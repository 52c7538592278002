// AVX-512 F, BW, VL and DQ.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#include <immintrin.h>

#include "kernels/cpu/exp_constants.h"
#include "kernels/cpu/vector_tile_ops.h"

namespace flashmla::cpu {
namespace {

struct Simd {
  using Vec = __m512;
  static constexpr int32_t kLanes = 16;
  // 16 of the 32 registers are sums: enough to hide the latency of two multiply-add units, and each loaded register is
  // used four times, so that loads do not become the limit.
  static constexpr int32_t kScoreHeads = 4;
  static constexpr int32_t kSumHeads = 4;
  static constexpr int32_t kSumVectors = 4;

  static Vec load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec set(float value) { return _mm512_set1_ps(value); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec fmadd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }

  static Vec keep_first(Vec v, int32_t n, Vec other) {
    if (n >= kLanes) return v;
    return _mm512_mask_blend_ps(static_cast<__mmask16>((1U << n) - 1U), other, v);
  }

  static float reduce_add(Vec v) { return _mm512_reduce_add_ps(v); }
  static float reduce_max(Vec v) { return _mm512_reduce_max_ps(v); }

  // Halves the 128-bit parts of two registers: the parts of the result are {a0 + a1, a2 + a3, b0 + b1, b2 + b3}.
  static Vec add_parts(Vec a, Vec b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  }

  static void store_sums(const Vec v[4], float* p) {
    Vec sums = add_parts(add_parts(v[0], v[1]), add_parts(v[2], v[3]));  // part i: four partial sums of v[i]
    sums = _mm512_add_ps(sums, _mm512_permute_ps(sums, 0x4e));
    sums = _mm512_add_ps(sums, _mm512_permute_ps(sums, 0xb1));
    const __m512i first_of_part = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
    _mm_storeu_ps(p, _mm512_castps512_ps128(_mm512_permutexvar_ps(first_of_part, sums)));
  }

  static Vec exp(Vec x) {
    x = _mm512_max_ps(_mm512_set1_ps(kExpLowest), x);  // the second argument wins where it is NaN
    const Vec n =
        _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(kLog2E)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    Vec r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kLn2High), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kLn2Low), r);
    Vec p = _mm512_set1_ps(kExpCoefficients[0]);
    for (int i = 1; i < 6; ++i) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpCoefficients[i]));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1.0F)));
    return _mm512_scalef_ps(p, n);
  }

  static void widen(const void* bf16, int32_t count, float* out) {
    const auto* bytes = static_cast<const uint8_t*>(bf16);
    for (int32_t i = 0; i < count; i += kLanes) {
      const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 2 * i));
      const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16);
      _mm512_storeu_ps(out + i, _mm512_castsi512_ps(bits));
    }
  }

  static bool has_e4m3_nan(const uint8_t* data, int32_t count) {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
    const __m512i ones = _mm512_set1_epi8(static_cast<char>(0xff));
    __mmask64 found = 0;
    for (int32_t i = 0; i < count; i += 64) {
      const __m512i codes = _mm512_loadu_si512(data + i);
      found |= _mm512_cmpeq_epi8_mask(_mm512_or_si512(codes, sign), ones);
    }
    return found != 0;
  }

  // The sign goes to bit 15, exponent and mantissa to the bits from 13 down to 7.
  template <int32_t kCount>
  static void e4m3_group(const uint8_t* data, float scale, float* out) {
    const Vec scales = _mm512_set1_ps(scale);
    const __m512i keep = _mm512_set1_epi16(static_cast<int16_t>(0xbfff));
    for (int32_t i = 0; i < kCount; i += 32) {
      const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i));
      const __m512i shifted = _mm512_srai_epi16(_mm512_slli_epi16(_mm512_cvtepu8_epi16(codes), 8), 1);
      const __m512i halves = _mm512_and_si512(shifted, keep);
      const Vec low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
      const Vec high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
      _mm512_storeu_ps(out + i, _mm512_mul_ps(low, scales));
      _mm512_storeu_ps(out + i + 16, _mm512_mul_ps(high, scales));
    }
  }

  // 16 values of one scale.
  static void e2m1_group(const uint8_t* data, float scale, float* out) {
    const __m512 values = _mm512_set_ps(-6, -4, -3, -2, -1.5F, -1, -0.5F, -0.0F, 6, 4, 3, 2, 1.5F, 1, 0.5F, 0);
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(data));
    const __m128i mask = _mm_set1_epi8(15);
    const __m128i low = _mm_and_si128(bytes, mask);
    const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), mask);
    const __m512i codes = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(low, high));
    _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_permutexvar_ps(codes, values), _mm512_set1_ps(scale)));
  }

  static void narrow(const float* row, float factor, int32_t count, uint16_t* bf16) {
    const Vec factors = _mm512_set1_ps(factor);
    for (int32_t i = 0; i < count; i += kLanes) {
      const Vec value = _mm512_mul_ps(_mm512_loadu_ps(row + i), factors);
      const __m512i bits = _mm512_castps_si512(value);
      const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
      const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
      const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
      const __m512i kept = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), rounded, quiet);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(bf16 + i), _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16)));
    }
  }
};

}  // namespace

const TileOps kAvx512TileOps = VectorTileOps<Simd>::table("avx512");

}  // namespace flashmla::cpu

#else
#error "compile this file for AVX-512"
#endif
