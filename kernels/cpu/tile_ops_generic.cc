// The reference: plain C++ for any processor, written to be read. What the vector versions must mean is defined here.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/tile_ops.h"

namespace flashmla::cpu {
namespace {

float bf16_value(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x0040U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// E4M3: sign, 4 exponent bits with bias 7, 3 mantissa bits; no infinities, only 0x7f and 0xff are NaN.
constexpr float e4m3_value_of(int code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  float value = exponent == 0 ? static_cast<float>(mantissa) : static_cast<float>(8 + mantissa);
  for (int i = exponent == 0 ? 1 : exponent; i > 1; --i) value *= 2;
  value *= 0x1p-9F;
  return (code & 0x80) != 0 ? -value : value;
}

constexpr E4m3Table make_e4m3_table() {
  E4m3Table table{};
  for (int code = 0; code < 256; ++code) table.of[code] = e4m3_value_of(code);
  return table;
}

float e4m3_value(uint8_t code) {
  return kE4m3Values.of[code];
}

// E2M1: sign, 2 exponent bits with bias 1, 1 mantissa bit.
constexpr float kE2m1Values[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                   -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

// UE8M0: an exponent with bias 127 and nothing else; 0xff is NaN.
float ue8m0_value(uint8_t bits) {
  return bits == 0xff ? std::nanf("") : std::ldexp(1.0F, int{bits} - 127);
}

void widen(const uint16_t* bf16, int32_t count, float* out) {
  for (int32_t i = 0; i < count; ++i) out[i] = bf16_value(bf16[i]);
}

// BF16 values inside a record need not be aligned.
void widen_bytes(const uint8_t* bytes, int32_t count, float* out) {
  for (int32_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes + 2 * i, sizeof bits);
    out[i] = bf16_value(bits);
  }
}

void dequantise(flashmla_kv_format format, Record record, float* row) {
  switch (format) {
    case FLASHMLA_KV_V4_584:
      for (int32_t i = 0; i < 448; ++i) row[i] = e4m3_value(record.data[i]) * ue8m0_value(record.scales[i / 64]);
      widen_bytes(record.data + 448, 64, row + 448);
      return;
    case FLASHMLA_KV_V32_656:
      for (int32_t i = 0; i < 512; ++i) {
        float scale = 0;
        std::memcpy(&scale, record.scales + 4 * (i / 128), sizeof scale);
        row[i] = e4m3_value(record.data[i]) * scale;
      }
      widen_bytes(record.data + 528, 64, row + 512);
      return;
    case FLASHMLA_KV_V41_528:
      for (int32_t i = 0; i < 512; ++i) row[i] = e4m3_value(record.data[i]) * ue8m0_value(record.scales[i / 32]);
      return;
    case FLASHMLA_KV_V41_FP4_288:
      for (int32_t i = 0; i < 512; ++i) {
        const int code = (record.data[i / 2] >> (i % 2 * 4)) & 15;
        row[i] = kE2m1Values[code] * e4m3_value(record.scales[i / 16]);
      }
      return;
  }
}

void score(const float* q, int32_t heads, int32_t d_qk, const float* tile, int32_t tokens, float* scores) {
  for (int32_t h = 0; h < heads; ++h) {
    const float* query = q + h * row_floats(d_qk);
    for (int32_t t = 0; t < tokens; ++t) {
      const float* key = tile + t * row_floats(d_qk);
      // Sixteen partial sums: less rounding error than one, and what a vector register holds.
      float partial[16] = {};
      for (int32_t i = 0; i < d_qk; i += 16) {
        for (int32_t lane = 0; lane < 16; ++lane) partial[lane] += query[i + lane] * key[i + lane];
      }
      for (int32_t width = 8; width > 0; width /= 2) {
        for (int32_t lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
      }
      scores[h * kTileTokens + t] = partial[0];
    }
  }
}

void softmax(float* scores, int32_t heads, int32_t tokens, float scale, const SoftmaxState& state) {
  for (int32_t h = 0; h < heads; ++h) {
    float* row = scores + h * kTileTokens;
    float maximum = state.max[h];
    for (int32_t t = 0; t < tokens; ++t) maximum = std::fmax(maximum, row[t] * scale);
    const double maximum_wide = maximum;
    double sum = 0;
    for (int32_t t = 0; t < tokens; ++t) {
      // The difference decides how exact the LSE is: in double it loses nothing of the score.
      row[t] = static_cast<float>(std::exp(static_cast<double>(row[t]) * scale - maximum_wide));
      sum += row[t];
    }
    state.rescale[h] = state.max[h] == maximum ? 1.0F : std::exp(state.max[h] - maximum);
    state.sum[h] = state.sum[h] * state.rescale[h] + sum;
    state.max[h] = maximum;
  }
}

void accumulate(const float* p, int32_t heads, const float* tile, int64_t stride, int32_t tokens, const float* rescale,
                float* out) {
  for (int32_t h = 0; h < heads; ++h) {
    float* sum = out + h * row_floats(kValueDims);
    for (int32_t i = 0; i < kValueDims; ++i) sum[i] *= rescale[h];
    for (int32_t t = 0; t < tokens; ++t) {
      const float* value = tile + t * stride;
      const float weight = p[h * kTileTokens + t];
      for (int32_t i = 0; i < kValueDims; ++i) sum[i] += weight * value[i];
    }
  }
}

void narrow(const float* row, float factor, int32_t count, uint16_t* bf16) {
  for (int32_t i = 0; i < count; ++i) bf16[i] = to_bf16(row[i] * factor);
}

}  // namespace

constinit const E4m3Table kE4m3Values = make_e4m3_table();

const TileOps kGenericTileOps = {"generic", widen, dequantise, score, softmax, accumulate, narrow};

}  // namespace flashmla::cpu
