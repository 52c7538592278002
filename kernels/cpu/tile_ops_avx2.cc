// AVX2 with FMA and F16C.
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

#include "kernels/cpu/exp_constants.h"
#include "kernels/cpu/vector_tile_ops.h"

namespace flashmla::cpu {
namespace {

struct Simd {
  using Vec = __m256;
  static constexpr int32_t kLanes = 8;
  // 8 of the 16 registers are sums; the rest holds what they are made of.
  static constexpr int32_t kScoreHeads = 2;
  static constexpr int32_t kSumHeads = 2;
  static constexpr int32_t kSumVectors = 4;

  static Vec load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec set(float value) { return _mm256_set1_ps(value); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec fmadd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }

  static Vec keep_first(Vec v, int32_t n, Vec other) {
    if (n >= kLanes) return v;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane)));
  }

  static float reduce_add(Vec v) {
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
  }

  static float reduce_max(Vec v) {
    __m128 maximum = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    maximum = _mm_max_ps(maximum, _mm_movehl_ps(maximum, maximum));
    return _mm_cvtss_f32(_mm_max_ss(maximum, _mm_movehdup_ps(maximum)));
  }

  static void store_sums(const Vec v[4], float* p) {
    const Vec sums = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1)));
  }

  static Vec power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }

  static Vec exp(Vec x) {
    x = _mm256_max_ps(_mm256_set1_ps(kExpLowest), x);  // the second argument wins where it is NaN
    const Vec n =
        _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(kLog2E)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    Vec r = _mm256_fnmadd_ps(n, _mm256_set1_ps(kLn2High), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(kLn2Low), r);
    Vec p = _mm256_set1_ps(kExpCoefficients[0]);
    for (int i = 1; i < 6; ++i) p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpCoefficients[i]));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), _mm256_add_ps(r, _mm256_set1_ps(1.0F)));
    // 2^n in two factors: below -126 it is no normal number.
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
  }

  static void widen(const void* bf16, int32_t count, float* out) {
    const auto* bytes = static_cast<const uint8_t*>(bf16);
    for (int32_t i = 0; i < count; i += kLanes) {
      const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 2 * i));
      const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16);
      _mm256_storeu_ps(out + i, _mm256_castsi256_ps(bits));
    }
  }

  static bool has_e4m3_nan(const uint8_t* data, int32_t count) {
    const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
    const __m256i ones = _mm256_set1_epi8(static_cast<char>(0xff));
    __m256i found = _mm256_setzero_si256();
    for (int32_t i = 0; i < count; i += 32) {
      const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i));
      found = _mm256_or_si256(found, _mm256_cmpeq_epi8(_mm256_or_si256(codes, sign), ones));
    }
    return _mm256_movemask_epi8(found) != 0;
  }

  // The sign goes to bit 15, exponent and mantissa to the bits from 13 down to 7.
  template <int32_t kCount>
  static void e4m3_group(const uint8_t* data, float scale, float* out) {
    const Vec scales = _mm256_set1_ps(scale);
    const __m256i keep = _mm256_set1_epi16(static_cast<int16_t>(0xbfff));
    for (int32_t i = 0; i < kCount; i += 16) {
      const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + i));
      const __m256i shifted = _mm256_srai_epi16(_mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8), 1);
      const __m256i halves = _mm256_and_si256(shifted, keep);
      const Vec low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
      const Vec high = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
      _mm256_storeu_ps(out + i, _mm256_mul_ps(low, scales));
      _mm256_storeu_ps(out + i + 8, _mm256_mul_ps(high, scales));
    }
  }

  // 16 values of one scale.
  static void e2m1_group(const uint8_t* data, float scale, float* out) {
    const Vec magnitudes = _mm256_setr_ps(0, 0.5F, 1, 1.5F, 2, 3, 4, 6);
    const Vec scales = _mm256_set1_ps(scale);
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(data));
    const __m128i mask = _mm_set1_epi8(15);
    const __m128i low = _mm_and_si128(bytes, mask);
    const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), mask);
    __m128i codes = _mm_unpacklo_epi8(low, high);
    for (int32_t i = 0; i < 16; i += 8) {
      const __m256i code = _mm256_cvtepu8_epi32(codes);
      const Vec sign = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(code, 3), 31));
      const Vec value = _mm256_xor_ps(_mm256_permutevar8x32_ps(magnitudes, code), sign);
      _mm256_storeu_ps(out + i, _mm256_mul_ps(value, scales));
      codes = _mm_srli_si128(codes, 8);
    }
  }

  static void narrow(const float* row, float factor, int32_t count, uint16_t* bf16) {
    const Vec factors = _mm256_set1_ps(factor);
    for (int32_t i = 0; i < count; i += kLanes) {
      const Vec value = _mm256_mul_ps(_mm256_loadu_ps(row + i), factors);
      const __m256i bits = _mm256_castps_si256(value);
      const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
      const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
      const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
      const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
      const __m256i kept = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
      const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(bf16 + i), packed);
    }
  }
};

}  // namespace

const TileOps kAvx2TileOps = VectorTileOps<Simd>::table("avx2");

}  // namespace flashmla::cpu

#else
#error "compile this file for AVX2, FMA and F16C"
#endif
