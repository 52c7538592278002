// Values of the small number formats, from their definitions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace flashmla::oracle {

inline double bf16_value(uint16_t code) {
  const uint32_t bits = uint32_t{code} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// E4M3 ("FN"): bias 7, subnormals, no infinities, all ones is NaN.
inline double e4m3_value(uint8_t code) {
  const int exponent = (code & 0x78) >> 3;
  const int fraction = code & 0x07;
  double value = 0;
  if (exponent == 15 && fraction == 7) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -9);
  } else {
    value = std::ldexp(8 + fraction, exponent - 10);
  }
  return (code & 0x80) != 0 ? -value : value;
}

// E2M1: bias 1, subnormals, neither infinities nor NaN.
inline double e2m1_value(uint8_t code) {
  const int exponent = (code & 6) >> 1;
  const int fraction = code & 1;
  const double value = exponent == 0 ? fraction * 0.5 : std::ldexp(2 + fraction, exponent - 2);
  return (code & 8) != 0 ? -value : value;
}

// UE8M0: bias 127; all ones is NaN.
inline double ue8m0_value(uint8_t code) {
  return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}

}  // namespace flashmla::oracle
