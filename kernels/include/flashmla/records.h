/*
 * Writers of the quantised KV records of flashmla.h. Header only, C11 and C++, deterministic: the same values give the
 * same bytes on every machine (rounding mode: to nearest even, the default of the C environment).
 *
 * `page` is the first byte of a page of `page_size` tokens, `offset` the token's place in it (0 <= offset < page_size).
 *
 * Scale of a group of E4M3 values, upstream FlashMLA's rule: 2^ceil(log2(max(absmax / 448, 1e-4))). What is not finite:
 * NaN stays NaN, an infinite value is stored as the largest one its scale can express.
 */
#ifndef FLASHMLA_RECORDS_H
#define FLASHMLA_RECORDS_H

#include <stdint.h>
#include <string.h>

/* In CUDA sources the writers are there for both sides, so that a device's records have the same bytes. */
#if defined(__CUDACC__)
#define FLASHMLA_RECORDS_INLINE static inline __host__ __device__
#else
#define FLASHMLA_RECORDS_INLINE static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of one page; pages may lie further apart (page_stride_bytes). */
FLASHMLA_RECORDS_INLINE int64_t flashmla_v4_page_bytes(int32_t page_size) {
  return (int64_t)page_size * 584;
}
FLASHMLA_RECORDS_INLINE int64_t flashmla_v32_page_bytes(int32_t page_size) {
  return (int64_t)page_size * 656;
}
FLASHMLA_RECORDS_INLINE int64_t flashmla_v41_page_bytes(int32_t page_size) {
  return (int64_t)page_size * 528;
}
FLASHMLA_RECORDS_INLINE int64_t flashmla_v41_fp4_page_bytes(int32_t page_size) {
  return (int64_t)page_size * 288;
}

FLASHMLA_RECORDS_INLINE uint32_t flashmla_float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

FLASHMLA_RECORDS_INLINE float flashmla_bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* To nearest even. */
FLASHMLA_RECORDS_INLINE uint16_t flashmla_to_bf16(float value) {
  const uint32_t bits = flashmla_float_bits(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return (uint16_t)((bits >> 16) | 0x40U);
  return (uint16_t)((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/* To nearest even; beyond the largest value, 448, it saturates. */
FLASHMLA_RECORDS_INLINE uint8_t flashmla_to_e4m3(float value) {
  const uint32_t bits = flashmla_float_bits(value);
  const uint32_t magnitude = bits & 0x7fffffffU;
  const uint32_t sign = (bits >> 24) & 0x80U;
  if (magnitude > 0x7f800000U) return (uint8_t)(sign | 0x7fU);
  if (magnitude >= 0x43e00000U) return (uint8_t)(sign | 0x7eU);      /* 448 and more */
  if (magnitude < 0x3c800000U) {                                     /* below 2^-6: multiples of 2^-9 */
    const float shifted = flashmla_bits_float(magnitude) + 16384.0f; /* 2^14: one unit in its last place is 2^-9 */
    return (uint8_t)(sign | (flashmla_float_bits(shifted) - 0x46800000U));
  }
  const uint32_t rounded = magnitude + 0x7ffffU + ((magnitude >> 20) & 1U);
  return (uint8_t)(sign | ((rounded >> 20) - ((127U - 7U) << 3)));
}

/* Exponent of upstream's scale rule, for a group's largest magnitude. */
FLASHMLA_RECORDS_INLINE int32_t flashmla_scale_exponent(float absmax) {
  float scale = absmax / 448.0f;
  if (!(scale > 1e-4f)) scale = 1e-4f;
  const uint32_t bits = flashmla_float_bits(scale);
  if (bits >= 0x7f800000U) return 120; /* infinite; the largest finite value needs 2^120 */
  return (int32_t)(bits >> 23) - 127 + ((bits & 0x7fffffU) != 0);
}

/* NaN does not count. */
FLASHMLA_RECORDS_INLINE float flashmla_absmax(const float* values, int32_t count) {
  float absmax = 0.0f;
  for (int32_t i = 0; i < count; ++i) {
    const float magnitude = flashmla_bits_float(flashmla_float_bits(values[i]) & 0x7fffffffU);
    if (magnitude > absmax) absmax = magnitude;
  }
  return absmax;
}

FLASHMLA_RECORDS_INLINE float flashmla_power_of_two(int32_t exponent) { /* -126 <= exponent <= 127 */
  return flashmla_bits_float((uint32_t)(exponent + 127) << 23);
}

/* Writes `count` E4M3 values of one group; returns the exponent of their scale. */
FLASHMLA_RECORDS_INLINE int32_t flashmla_write_e4m3_group(const float* values, int32_t count, uint8_t* data) {
  const int32_t exponent = flashmla_scale_exponent(flashmla_absmax(values, count));
  const float inverse = flashmla_power_of_two(-exponent);
  for (int32_t i = 0; i < count; ++i) data[i] = flashmla_to_e4m3(values[i] * inverse);
  return exponent;
}

FLASHMLA_RECORDS_INLINE void flashmla_write_bf16(const float* values, int32_t count, uint8_t* data) {
  for (int32_t i = 0; i < count; ++i) {
    const uint16_t bits = flashmla_to_bf16(values[i]);
    memcpy(data + 2 * i, &bits, sizeof bits);
  }
}

/* V4_584: 448 values without and 64 with rotary position. */
FLASHMLA_RECORDS_INLINE void flashmla_v4_write(uint8_t* page, int32_t page_size, int32_t offset, const float* nope,
                                               const float* rope) {
  uint8_t* data = page + (int64_t)offset * 576;
  uint8_t* scales = page + (int64_t)page_size * 576 + (int64_t)offset * 8;
  for (int32_t group = 0; group < 7; ++group) {
    const int32_t exponent = flashmla_write_e4m3_group(nope + 64 * group, 64, data + 64 * group);
    scales[group] = (uint8_t)(exponent + 127);
  }
  scales[7] = 0;
  flashmla_write_bf16(rope, 64, data + 448);
}

/* V32_656: 512 values without and 64 with rotary position. */
FLASHMLA_RECORDS_INLINE void flashmla_v32_write(uint8_t* page, int32_t page_size, int32_t offset, const float* nope,
                                                const float* rope) {
  (void)page_size;
  uint8_t* data = page + (int64_t)offset * 656;
  for (int32_t group = 0; group < 4; ++group) {
    const int32_t exponent = flashmla_write_e4m3_group(nope + 128 * group, 128, data + 128 * group);
    const float scale = flashmla_power_of_two(exponent);
    memcpy(data + 512 + 4 * group, &scale, sizeof scale);
  }
  flashmla_write_bf16(rope, 64, data + 528);
}

/* V41_528: 512 values, rotary ones included. */
FLASHMLA_RECORDS_INLINE void flashmla_v41_write(uint8_t* page, int32_t page_size, int32_t offset, const float* values) {
  uint8_t* data = page + (int64_t)offset * 512;
  uint8_t* scales = page + (int64_t)page_size * 512 + (int64_t)offset * 16;
  for (int32_t group = 0; group < 16; ++group) {
    const int32_t exponent = flashmla_write_e4m3_group(values + 32 * group, 32, data + 32 * group);
    scales[group] = (uint8_t)(exponent + 127);
  }
}

/* To nearest even; beyond the largest value, 6, it saturates. E2M1 has no NaN: it becomes 0. */
FLASHMLA_RECORDS_INLINE uint8_t flashmla_to_e2m1(float value) {
  const uint32_t bits = flashmla_float_bits(value);
  const float magnitude = flashmla_bits_float(bits & 0x7fffffffU);
  uint32_t code = 0;
  if (magnitude > 0.25f) code = 1;
  if (magnitude >= 0.75f) code = 2;
  if (magnitude > 1.25f) code = 3;
  if (magnitude >= 1.75f) code = 4;
  if (magnitude > 2.5f) code = 5;
  if (magnitude >= 3.5f) code = 6;
  if (magnitude > 5.0f) code = 7;
  return (uint8_t)(((bits >> 28) & 8U) | code);
}

FLASHMLA_RECORDS_INLINE float flashmla_e4m3_value(uint8_t code) { /* finite, not negative */
  const uint32_t exponent = code >> 3;
  if (exponent == 0) return (float)code * 0.001953125f; /* 2^-9 */
  return flashmla_bits_float(((exponent + 120U) << 23) | ((uint32_t)(code & 7U) << 20));
}

/* V41_FP4_288: 512 values. The scale of a group is absmax / 6 as E4M3, to nearest even, at least its smallest 2^-9. */
FLASHMLA_RECORDS_INLINE void flashmla_v41_fp4_write(uint8_t* page, int32_t page_size, int32_t offset,
                                                    const float* values) {
  uint8_t* data = page + (int64_t)offset * 256;
  uint8_t* scales = page + (int64_t)page_size * 256 + (int64_t)offset * 32;
  for (int32_t group = 0; group < 32; ++group) {
    const float* in = values + 16 * group;
    uint8_t code = flashmla_to_e4m3(flashmla_absmax(in, 16) / 6.0f);
    if (code == 0) code = 1;
    const float scale = flashmla_e4m3_value(code);
    scales[group] = code;
    for (int32_t i = 0; i < 8; ++i) {
      const uint32_t low = flashmla_to_e2m1(in[2 * i] / scale);
      const uint32_t high = flashmla_to_e2m1(in[2 * i + 1] / scale);
      data[8 * group + i] = (uint8_t)(low | high << 4);
    }
  }
}

#ifdef __cplusplus
}
#endif

#endif /* FLASHMLA_RECORDS_H */
