#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "flashmla/records.h"
#include "kernels/oracle/number_formats.h"
#include "kernels/oracle/oracle.h"
#include "kernels/oracle/random.h"
#include "tests/support/catch.h"

namespace flashmla {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

flashmla_sparse_kv one_page(flashmla_kv_format format, const std::vector<uint8_t>& page, int32_t page_size) {
  flashmla_sparse_kv kv{};
  kv.pool = page.data();
  kv.num_pages = 1;
  kv.page_stride_bytes = static_cast<int64_t>(page.size());
  kv.page_size = page_size;
  kv.format = format;
  return kv;
}

TEST_CASE("records: every finite E4M3 value survives the way through float") {
  for (int code = 0; code < 256; ++code) {
    const double value = oracle::e4m3_value(static_cast<uint8_t>(code));
    if (std::isnan(value)) continue;
    CAPTURE(code, value);
    CHECK(flashmla_to_e4m3(static_cast<float>(value)) == code);
  }
}

TEST_CASE("records: E4M3 rounds to the nearest value, ties to even") {
  for (int code = 0; code < 0x7e; ++code) {
    const double low = oracle::e4m3_value(static_cast<uint8_t>(code));
    const double high = oracle::e4m3_value(static_cast<uint8_t>(code + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    CAPTURE(code, low, high);
    CHECK(flashmla_to_e4m3(middle) == (code % 2 == 0 ? code : code + 1));
    CHECK(flashmla_to_e4m3(std::nextafter(middle, 0.0F)) == code);
    CHECK(flashmla_to_e4m3(std::nextafter(middle, 1e9F)) == code + 1);
    CHECK(flashmla_to_e4m3(-std::nextafter(middle, 1e9F)) == (0x80 | (code + 1)));
  }
}

TEST_CASE("records: E4M3 saturates, and keeps NaN") {
  CHECK(flashmla_to_e4m3(449.0F) == 0x7e);
  CHECK(flashmla_to_e4m3(1e30F) == 0x7e);
  CHECK(flashmla_to_e4m3(-kInfinity) == 0xfe);
  CHECK((flashmla_to_e4m3(std::nanf("")) & 0x7f) == 0x7f);
}

TEST_CASE("records: E2M1 rounds to the nearest value, ties to even, and saturates") {
  for (int code = 0; code < 7; ++code) {
    const double low = oracle::e2m1_value(static_cast<uint8_t>(code));
    const double high = oracle::e2m1_value(static_cast<uint8_t>(code + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    CHECK(flashmla_to_e2m1(static_cast<float>(low)) == code);
    CHECK(flashmla_to_e2m1(middle) == (code % 2 == 0 ? code : code + 1));
    CHECK(flashmla_to_e2m1(std::nextafter(middle, 0.0F)) == code);
    CHECK(flashmla_to_e2m1(-std::nextafter(middle, 9.0F)) == (8 | (code + 1)));
  }
  CHECK(flashmla_to_e2m1(100.0F) == 7);
}

TEST_CASE("records: BF16 rounds to nearest even and keeps NaN") {
  CHECK(flashmla_to_bf16(1.0F) == 0x3f80);
  CHECK(flashmla_to_bf16(flashmla_bits_float(0x3f808000)) == 0x3f80);
  CHECK(flashmla_to_bf16(flashmla_bits_float(0x3f818000)) == 0x3f82);
  CHECK(flashmla_to_bf16(flashmla_bits_float(0x3f808001)) == 0x3f81);
  CHECK(flashmla_to_bf16(kInfinity) == 0x7f80);
  CHECK((flashmla_to_bf16(flashmla_bits_float(0x7f800001)) & 0x7fff) > 0x7f80);
}

TEST_CASE("records: the scale is the power of two above absmax / 448, at least the one above 1e-4") {
  CHECK(flashmla_scale_exponent(448.0F) == 0);
  CHECK(flashmla_scale_exponent(std::nextafter(448.0F, 1e9F)) == 1);
  CHECK(flashmla_scale_exponent(224.0F) == -1);
  CHECK(flashmla_scale_exponent(1.0F) == -8);
  CHECK(flashmla_scale_exponent(0.0F) == -13);
  CHECK(flashmla_scale_exponent(kInfinity) == 120);
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const float absmax = std::fabs(random.normal()) * std::ldexp(1.0F, random.integer(-20, 40));
    const double expected = std::ceil(std::log2(std::fmax(static_cast<double>(absmax) / 448, 1e-4)));
    CHECK(flashmla_scale_exponent(absmax) == static_cast<int>(expected));
  }
}

TEST_CASE("records: a V4 token lies where the format says and nowhere else") {
  constexpr int32_t kPageSize = 3;
  std::vector<uint8_t> page(static_cast<size_t>(flashmla_v4_page_bytes(kPageSize)), 0xee);
  std::array<float, 448> nope{};
  std::array<float, 64> rope{};
  nope[0] = 448.0F;
  nope[64] = -1.0F;
  rope[0] = 1.0F;
  rope[63] = -2.0F;
  flashmla_v4_write(page.data(), kPageSize, 1, nope.data(), rope.data());
  CHECK(page[576] == 0x7e);
  CHECK(page[576 + 64] == 0xf8);  // -1 = -256 * 2^-8
  CHECK(page[576 + 448] == 0x80);
  CHECK(page[576 + 449] == 0x3f);
  CHECK(page[576 + 448 + 127] == 0xc0);
  const size_t scales = 3 * 576 + 8;
  CHECK(page[scales] == 127);
  CHECK(page[scales + 1] == 127 - 8);
  CHECK(page[scales + 2] == 127 - 13);
  CHECK(page[scales + 7] == 0);
  for (size_t i = 0; i < page.size(); ++i) {
    const bool inside = (i >= 576 && i < 2 * 576) || (i >= scales && i < scales + 8);
    if (!inside) CHECK(page[i] == 0xee);
  }
}

TEST_CASE("records: what is written reads back within the precision of the format") {
  struct Format {
    flashmla_kv_format format;
    int32_t d_qk;
    int64_t bytes;
    double relative;  // half a unit of the narrowest number in the record
  };
  const Format format =
      GENERATE(Format{FLASHMLA_KV_V4_584, 512, 584, 0x1p-4}, Format{FLASHMLA_KV_V32_656, 576, 656, 0x1p-4},
               Format{FLASHMLA_KV_V41_528, 512, 528, 0x1p-4}, Format{FLASHMLA_KV_V41_FP4_288, 512, 288, 0.25});
  constexpr int32_t kPageSize = 5;
  std::vector<uint8_t> page(static_cast<size_t>(kPageSize * format.bytes));
  Random random(5);
  for (int32_t offset = 0; offset < kPageSize; ++offset) {
    std::vector<float> values;
    for (int32_t i = 0; i < format.d_qk; ++i) values.push_back(random.normal());
    switch (format.format) {
      case FLASHMLA_KV_V4_584:
        flashmla_v4_write(page.data(), kPageSize, offset, values.data(), values.data() + 448);
        break;
      case FLASHMLA_KV_V32_656:
        flashmla_v32_write(page.data(), kPageSize, offset, values.data(), values.data() + 512);
        break;
      case FLASHMLA_KV_V41_528:
        flashmla_v41_write(page.data(), kPageSize, offset, values.data());
        break;
      case FLASHMLA_KV_V41_FP4_288:
        flashmla_v41_fp4_write(page.data(), kPageSize, offset, values.data());
        break;
    }
    const std::vector<double> stored = oracle::sparse_token(one_page(format.format, page, kPageSize), offset);
    REQUIRE(stored.size() == values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      // Small values are multiples of the group's step: an eighth of a normal unit for FP4, far less for FP8.
      const double step = format.format == FLASHMLA_KV_V41_FP4_288 ? 0.2 : 0.002;
      CHECK(std::fabs(stored[i] - value) <= format.relative * std::fabs(value) + step);
    }
  }
}

}  // namespace
}  // namespace flashmla
