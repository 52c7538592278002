#include "kernels/gate/numbers.h"

#include <cmath>

namespace flashmla::gate {
namespace {

float signed_zero(Random& random) {
  return random.integer(0, 1) == 0 ? 0.0F : -0.0F;
}

// Brings the scores of tokens with large scales back to a few units. (Beyond 2^28 the neighbours
// of an FP32 number are 32 away: no softmax over such scores means anything.)
float query_size(const Case& one) {
  if (one.dense) return 1.0F;
  const bool fp4 = one.format == FLASHMLA_KV_V41_FP4_288;
  switch (one.scales) {
    case Scales::kWritten:
    case Scales::kArbitrary:
    case Scales::kTiny:
      return 1.0F;
    case Scales::kSpread:
      return fp4 ? 0x1p-8F : 0x1p-16F;
    case Scales::kHostile:
      return fp4 ? 0x1p-8F : 0x1p-66F;
  }
  return 1.0F;
}

}  // namespace

float draw_query(const Case& one, Random& random) {
  const float value = query_size(one) * random.normal();
  switch (one.logits) {
    case Logits::kNormal:
    case Logits::kLongTail:
      return value;
    case Logits::kExtreme:
      return 40.0F * value;
    case Logits::kTiny:
      return 1e-30F * value;
    case Logits::kHuge:
      return 1e6F * value;
    case Logits::kSignedZero:
      return random.integer(0, 1) == 0 ? signed_zero(random) : value;
    case Logits::kOneSided:
      return std::fabs(value);
  }
  return value;
}

float draw_token_size(Logits logits, Random& random) {
  if (logits != Logits::kLongTail) return 1.0F;
  return random.integer(1, 50) == 1 ? 4.0F : 0.3F;
}

float draw_key(Logits logits, float token_size, Random& random) {
  const float value = token_size * random.normal();
  if (logits == Logits::kOneSided) return std::fabs(value);
  if (logits == Logits::kSignedZero && random.integer(0, 1) == 0) return signed_zero(random);
  return value;
}

bool replaces_scales(Scales scales) {
  return scales == Scales::kSpread || scales == Scales::kTiny || scales == Scales::kHostile;
}

int32_t draw_scale_exponent(Scales scales, Random& random) {
  if (scales == Scales::kSpread) return random.integer(-30, 10);
  if (scales == Scales::kTiny) return random.integer(-100, -60);
  return random.integer(1, 5) == 1 ? random.integer(-10, 60) : random.integer(-100, -60);
}

uint8_t draw_scale_code(Scales scales, Random& random) {
  constexpr int32_t kLargest = 0x7e;  // 448
  if (scales == Scales::kSpread) return static_cast<uint8_t>(random.integer(1, kLargest));
  if (scales == Scales::kHostile && random.integer(1, 5) == 1) return kLargest;
  return static_cast<uint8_t>(random.integer(1, 7));  // subnormal: 2^-9 to 7 * 2^-9
}

}  // namespace flashmla::gate
