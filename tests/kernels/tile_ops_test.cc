// Each instruction set against the reference, operation by operation.
#include "kernels/cpu/tile_ops.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "flashmla/records.h"
#include "kernels/oracle/random.h"
#include "tests/support/catch.h"

namespace flashmla::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool same_value(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

std::vector<float> random_rows(int32_t rows, int64_t stride, Random& random) {
  std::vector<float> values(static_cast<size_t>(rows * stride));
  for (float& value : values) value = random.normal();
  return values;
}

TEST_CASE("tile ops: dequantising any bytes gives the bits of the reference") {
  const TileOpsList list = available_tile_ops();
  const flashmla_kv_format format =
      GENERATE(FLASHMLA_KV_V4_584, FLASHMLA_KV_V32_656, FLASHMLA_KV_V41_528, FLASHMLA_KV_V41_FP4_288);
  const bool any_bytes = GENERATE(true, false);  // false: neither NaN nor extreme scales, so that the fast way is taken
  Random random(1);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<uint8_t> bytes(656 + 32);
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(random.next());
      if (!any_bytes && (byte & 0x7f) == 0x7f) byte = 0x3c;
    }
    Record record = {bytes.data(), bytes.data() + 656};
    if (format == FLASHMLA_KV_V32_656) {
      record.scales = bytes.data() + 512;
      for (int group = 0; !any_bytes && group < 4; ++group) {
        const float scale = std::fabs(random.normal()) + 0.001F;
        std::memcpy(bytes.data() + 512 + 4 * group, &scale, sizeof scale);
      }
    } else if (!any_bytes) {
      for (int i = 0; i < 32; ++i) bytes[656 + static_cast<size_t>(i)] = static_cast<uint8_t>(random.integer(0, 118));
    }
    std::vector<float> expected(kMaxKeyDims, 0.0F);
    kGenericTileOps.dequantise(format, record, expected.data());
    for (int32_t i = 1; i < list.count; ++i) {
      std::vector<float> row(kMaxKeyDims, 0.0F);
      list.of[i]->dequantise(format, record, row.data());
      for (size_t d = 0; d < row.size(); ++d) {
        CAPTURE(list.of[i]->isa, format, d, row[d], expected[d]);
        REQUIRE(same_value(row[d], expected[d]));
      }
    }
  }
}

TEST_CASE("tile ops: each E4M3 value with each scale is exact") {
  const TileOpsList list = available_tile_ops();
  std::vector<uint8_t> data(576), scales(8);
  for (int code = 0; code < 256; ++code) {
    std::fill_n(data.begin(), 448, static_cast<uint8_t>(code));
    for (int scale = 0; scale < 256; scale += 5) {
      std::fill_n(scales.begin(), 7, static_cast<uint8_t>(scale));
      float expected[512];
      kGenericTileOps.dequantise(FLASHMLA_KV_V4_584, {data.data(), scales.data()}, expected);
      for (int32_t i = 1; i < list.count; ++i) {
        float row[512];
        list.of[i]->dequantise(FLASHMLA_KV_V4_584, {data.data(), scales.data()}, row);
        CAPTURE(list.of[i]->isa, code, scale, row[447], expected[447]);
        REQUIRE(same_value(row[0], expected[0]));
        REQUIRE(same_value(row[447], expected[447]));
      }
    }
  }
}

TEST_CASE("tile ops: widening and narrowing give the bits of the reference") {
  const TileOpsList list = available_tile_ops();
  Random random(2);
  std::vector<uint16_t> codes(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  std::vector<float> values(codes.size());
  kGenericTileOps.widen(codes.data(), 65536, values.data());
  std::vector<float> any(4096);
  for (float& value : any) value = flashmla_bits_float(static_cast<uint32_t>(random.next()));
  for (int32_t i = 1; i < list.count; ++i) {
    CAPTURE(list.of[i]->isa);
    std::vector<float> wide(codes.size());
    list.of[i]->widen(codes.data(), 65536, wide.data());
    CHECK(std::memcmp(wide.data(), values.data(), values.size() * sizeof(float)) == 0);
    std::vector<uint16_t> expected(any.size()), narrow(any.size());
    kGenericTileOps.narrow(any.data(), 1.0F, 4096, expected.data());
    list.of[i]->narrow(any.data(), 1.0F, 4096, narrow.data());
    CHECK(narrow == expected);
  }
}

TEST_CASE("tile ops: scores are right for every number of heads and tokens, and blind to their neighbours") {
  const TileOpsList list = available_tile_ops();
  const int32_t d_qk = GENERATE(512, 576);
  constexpr int32_t kHeads = 9;
  Random random(3);
  const std::vector<float> q = random_rows(kHeads, row_floats(d_qk), random);
  const std::vector<float> rows = random_rows(kTileTokens, row_floats(d_qk), random);
  for (int32_t i = 0; i < list.count; ++i) {
    std::vector<float> all(kHeads * kTileTokens);
    list.of[i]->score(q.data(), kHeads, d_qk, rows.data(), kTileTokens, all.data());
    for (int32_t h = 0; h < kHeads; ++h) {
      for (int32_t t = 0; t < kTileTokens; ++t) {
        double exact = 0;
        double mass = 0;
        for (int32_t d = 0; d < d_qk; ++d) {
          const double product = double{q[static_cast<size_t>(h * row_floats(d_qk) + d)]} *
                                 rows[static_cast<size_t>(t * row_floats(d_qk) + d)];
          exact += product;
          mass += std::fabs(product);
        }
        CAPTURE(list.of[i]->isa, h, t);
        REQUIRE(std::fabs(all[static_cast<size_t>(h * kTileTokens + t)] - exact) <= 2 * 0x1p-24 * mass);
      }
    }
    for (int32_t heads = 1; heads <= kHeads; ++heads) {
      for (const int32_t tokens : {1, 2, 3, 4, 5, 17, 63, 64}) {
        std::vector<float> some(kHeads * kTileTokens);
        list.of[i]->score(q.data(), heads, d_qk, rows.data(), tokens, some.data());
        for (int32_t h = 0; h < heads; ++h) {
          CAPTURE(list.of[i]->isa, heads, tokens, h);
          REQUIRE(std::memcmp(&some[static_cast<size_t>(h * kTileTokens)], &all[static_cast<size_t>(h * kTileTokens)],
                              static_cast<size_t>(tokens) * sizeof(float)) == 0);
        }
      }
    }
  }
}

TEST_CASE("tile ops: softmax is that of double precision, over tiles of any length") {
  const TileOpsList list = available_tile_ops();
  constexpr float kScale = 0.05F;
  for (int32_t i = 0; i < list.count; ++i) {
    Random random(4);
    float maximum = -kInfinity;
    double sum = 0;
    float rescale = 0;
    double exact_sum = 0;
    std::vector<double> exact_scores;
    for (const int32_t tokens : {5, 64, 1, 16, 33}) {
      // What lies behind the tile's tokens must not count.
      std::vector<float> scores(kTileTokens, std::nanf(""));
      for (int32_t t = 0; t < tokens; ++t) {
        scores[static_cast<size_t>(t)] = 400 * random.normal();
        exact_scores.push_back(double{scores[static_cast<size_t>(t)]} * kScale);
      }
      list.of[i]->softmax(scores.data(), 1, tokens, kScale, {&maximum, &sum, &rescale});
      const size_t first = exact_scores.size() - static_cast<size_t>(tokens);
      for (int32_t t = 0; t < tokens; ++t) {
        const double exact = std::exp(exact_scores[first + static_cast<size_t>(t)] - maximum);
        CAPTURE(list.of[i]->isa, tokens, t, exact);
        REQUIRE(std::fabs(scores[static_cast<size_t>(t)] - exact) <= 1e-6 * exact + 1e-37);
      }
    }
    for (const double score : exact_scores) exact_sum += std::exp(score - maximum);
    CAPTURE(list.of[i]->isa, sum, exact_sum);
    CHECK(std::fabs(sum - exact_sum) <= 5e-7 * exact_sum);
  }
}

TEST_CASE("tile ops: softmax keeps NaN, and forgets what is infinitely far below") {
  const TileOpsList list = available_tile_ops();
  for (int32_t i = 0; i < list.count; ++i) {
    CAPTURE(list.of[i]->isa);
    float maximum = -kInfinity;
    double sum = 0;
    float rescale = 0;
    std::vector<float> scores(kTileTokens, 0.0F);
    scores[0] = -kInfinity;
    scores[1] = 3;
    scores[2] = -1e30F;
    list.of[i]->softmax(scores.data(), 1, 3, 1.0F, {&maximum, &sum, &rescale});
    CHECK(maximum == 3);
    CHECK(sum == 1);
    CHECK(scores[0] == 0);
    CHECK(scores[2] == 0);
    scores[0] = std::nanf("");
    list.of[i]->softmax(scores.data(), 1, 1, 1.0F, {&maximum, &sum, &rescale});
    CHECK(maximum == 3);
    CHECK(std::isnan(sum));
  }
}

TEST_CASE("tile ops: accumulation is right for every number of heads, and blind to their neighbours") {
  const TileOpsList list = available_tile_ops();
  constexpr int32_t kHeads = 7;
  const int64_t stride = row_floats(kValueDims);
  Random random(6);
  const std::vector<float> rows = random_rows(kTileTokens, stride, random);
  const std::vector<float> start = random_rows(kHeads, stride, random);
  std::vector<float> p(kHeads * kTileTokens);
  for (float& weight : p) weight = static_cast<float>(random.uniform());
  const std::vector<float> rescale = {1.0F, 0.5F, 0.0F, 0.25F, 1.0F, 0.9F, 0.1F};
  for (int32_t i = 0; i < list.count; ++i) {
    for (const int32_t tokens : {1, 3, 64}) {
      std::vector<float> all = start;
      list.of[i]->accumulate(p.data(), kHeads, rows.data(), stride, tokens, rescale.data(), all.data());
      for (int32_t h = 0; h < kHeads; ++h) {
        for (int32_t d = 0; d < kValueDims; ++d) {
          const auto at = static_cast<size_t>(h * stride + d);
          double exact = double{start[at]} * rescale[static_cast<size_t>(h)];
          double mass = std::fabs(exact);
          for (int32_t t = 0; t < tokens; ++t) {
            const double product =
                double{p[static_cast<size_t>(h * kTileTokens + t)]} * rows[static_cast<size_t>(t * stride + d)];
            exact += product;
            mass += std::fabs(product);
          }
          CAPTURE(list.of[i]->isa, tokens, h, d);
          REQUIRE(std::fabs(all[at] - exact) <= 4 * 0x1p-24 * mass);
        }
      }
      for (int32_t heads = 1; heads < kHeads; ++heads) {
        std::vector<float> some = start;
        list.of[i]->accumulate(p.data(), heads, rows.data(), stride, tokens, rescale.data(), some.data());
        for (int32_t h = 0; h < heads; ++h) {
          REQUIRE(std::memcmp(&some[static_cast<size_t>(h * stride)], &all[static_cast<size_t>(h * stride)],
                              kValueDims * sizeof(float)) == 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace flashmla::cpu
