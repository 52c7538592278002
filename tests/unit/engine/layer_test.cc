// The arithmetic below the decoder: packed products, scores, norms, rotation.
#include <cmath>
#include <cstring>
#include <vector>

#include "orchestrator/base/rng.h"
#include "orchestrator/engine/embedded/block_pool.h"
#include "orchestrator/engine/embedded/cpu/layer_math.h"
#include "orchestrator/engine/embedded/cpu/simd.h"
#include "orchestrator/engine/embedded/cpu/weights.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::engine::embedded;
using namespace sweep::engine::embedded::cpu;

namespace {

std::vector<float> random_values(size_t count, uint64_t seed) {
  base::SplitMix64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

}  // namespace

TEST_CASE("matmul: every size agrees with a product in double precision") {
  for (const int64_t inputs : {1, 5, 64}) {
    for (const int64_t outputs : {1, 31, 32, 33, 96}) {
      const auto weights = random_values(static_cast<size_t>(inputs * outputs), 1);
      const auto matrix = PackedMatrix::pack(weights, outputs, inputs);
      REQUIRE(matrix.padded_outputs % kPanelColumns == 0);
      for (int64_t rows = 1; rows <= 27; ++rows) {
        const auto a = random_values(static_cast<size_t>(inputs * rows), 2);
        std::vector<float> c(static_cast<size_t>(rows * matrix.padded_outputs), NAN);
        matrix.multiply(a.data(), inputs, rows, c.data(), matrix.padded_outputs);
        double worst = 0;
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t o = 0; o < matrix.padded_outputs; ++o) {
            double exact = 0;
            for (int64_t i = 0; i < inputs && o < outputs; ++i) {
              exact += static_cast<double>(a[static_cast<size_t>(r * inputs + i)]) *
                       static_cast<double>(weights[static_cast<size_t>(o * inputs + i)]);
            }
            const auto found = static_cast<double>(c[static_cast<size_t>(r * matrix.padded_outputs + o)]);
            worst = std::isnan(found) ? INFINITY : std::max(worst, std::abs(found - exact));
          }
        }
        CHECK(worst < 1e-5);
      }
    }
  }
}

TEST_CASE("matmul: a row's bits do not depend on how many rows are computed together") {
  const int64_t inputs = 77;
  const int64_t outputs = 64;
  const int64_t rows = 40;
  const auto matrix = PackedMatrix::pack(random_values(static_cast<size_t>(inputs * outputs), 1), outputs, inputs);
  const auto a = random_values(static_cast<size_t>(inputs * rows), 2);
  std::vector<float> together(static_cast<size_t>(rows * outputs));
  matrix.multiply(a.data(), inputs, rows, together.data(), outputs);
  for (int64_t block = 1; block < rows; ++block) {
    std::vector<float> apart(together.size());
    for (int64_t row = 0; row < rows; row += block) {
      matrix.multiply(a.data() + row * inputs, inputs, std::min(block, rows - row), apart.data() + row * outputs,
                      outputs);
    }
    CHECK(std::memcmp(together.data(), apart.data(), together.size() * sizeof(float)) == 0);
  }
}

#if defined(SWEEPCTL_EMBEDDED_X86)
TEST_CASE("simd: all instruction sets of this machine give the same bits where they fuse alike") {
  if (!__builtin_cpu_supports("avx512f")) SWEEP_SKIP("this machine has no AVX-512");
  const auto keys = random_values(16 * 128, 1);
  const auto queries = random_values(3 * 16, 2);
  const auto weights = random_values(3, 3);
  std::vector<float> a(128);
  std::vector<float> b(128);
  IndexScoreArguments arguments = {.queries = queries.data(),
                                   .weights = weights.data(),
                                   .heads = 3,
                                   .dim = 16,
                                   .keys = keys.data(),
                                   .keys_stride = 128,
                                   .columns = 128,
                                   .scores = a.data()};
  kSimdAvx512.index_scores(arguments);
  arguments.scores = b.data();
  kSimdAvx2.index_scores(arguments);
  CHECK(a == b);
  kSimdGeneric.index_scores(arguments);
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-5));

  const auto panels = random_values(9 * kPanelColumns, 4);
  const auto rows = random_values(5 * 9, 5);
  std::vector<float> c(5 * kPanelColumns);
  std::vector<float> d(c.size());
  MatmulArguments product = {.a = rows.data(),
                             .a_stride = 9,
                             .rows = 5,
                             .panels = panels.data(),
                             .inner = 9,
                             .columns = kPanelColumns,
                             .c = c.data(),
                             .c_stride = kPanelColumns};
  kSimdAvx512.matmul(product);
  product.c = d.data();
  kSimdAvx2.matmul(product);
  CHECK(c == d);
}
#endif

TEST_CASE("index scores: negative head scores count as zero") {
  std::vector<float> keys(static_cast<size_t>(2 * kScoreColumns));
  keys[0] = 1;                                       // dimension 0 of key 0
  keys[1] = -1;                                      // dimension 0 of key 1
  keys[static_cast<size_t>(kScoreColumns) + 1] = 2;  // dimension 1 of key 1
  const std::vector<float> queries = {3, 0, 0, 5};
  const std::vector<float> weights = {1, 0.5F};
  std::vector<float> scores(static_cast<size_t>(kScoreColumns));
  simd().index_scores({.queries = queries.data(),
                       .weights = weights.data(),
                       .heads = 2,
                       .dim = 2,
                       .keys = keys.data(),
                       .keys_stride = kScoreColumns,
                       .columns = 2,
                       .scores = scores.data()});
  CHECK(scores[0] == 3.0F);
  CHECK(scores[1] == 5.0F);
}

TEST_CASE("bf16: conversion rounds to nearest even") {
  const std::vector<float> values = {1.0F, 1.00390625F, 1.01171875F, -2.5F, 0.0F};
  std::vector<uint16_t> half(values.size());
  std::vector<float> back(values.size());
  simd().to_bf16(values.data(), half.data(), static_cast<int64_t>(values.size()));
  simd().from_bf16(half.data(), back.data(), static_cast<int64_t>(values.size()));
  CHECK(back == std::vector<float>{1.0F, 1.0F, 1.015625F, -2.5F, 0.0F});
}

TEST_CASE("layer math: norm has unit size, rotation keeps lengths, depends on distance only and turns back") {
  const auto values = random_values(100, 1);
  const std::vector<float> ones(100, 1.0F);
  std::vector<float> normed(100);
  rms_norm(values.data(), ones.data(), 100, 1e-6, normed.data());
  double sum = 0;
  for (const float value : normed) sum += static_cast<double>(value * value);
  CHECK(sum == Approx(100).epsilon(1e-4));

  const Rope rope(64, 10000, 1000);
  const auto rotated = [&](std::vector<float> pairs, int64_t position) {
    rope.rotate(pairs.data(), position);
    return pairs;
  };
  const auto dot = [](const std::vector<float>& a, const std::vector<float>& b) {
    double total = 0;
    for (size_t i = 0; i < a.size(); ++i) total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return total;
  };
  const auto q = random_values(64, 2);
  const auto k = random_values(64, 3);
  CHECK(dot(rotated(q, 10), rotated(k, 4)) == Approx(dot(rotated(q, 906), rotated(k, 900))).margin(1e-3));
  CHECK(dot(rotated(q, 500), rotated(q, 500)) == Approx(dot(q, q)).epsilon(1e-5));
  auto turned = rotated(q, 77);
  rope.rotate_back(turned.data(), 77);
  for (size_t i = 0; i < q.size(); ++i) CHECK(turned[i] == Approx(q[i]).margin(1e-5));
}

TEST_CASE("block pool: blocks are handed out whole or not at all and come back") {
  BlockPool pool(5, 32);
  std::vector<int32_t> a;
  std::vector<int32_t> b;
  CHECK(pool.blocks_for(0) == 0);
  CHECK(pool.blocks_for(32) == 1);
  CHECK(pool.blocks_for(33) == 2);
  REQUIRE(pool.allocate(3, a));
  CHECK(!pool.allocate(3, b));
  CHECK(b.empty());
  REQUIRE(pool.allocate(2, b));
  CHECK(pool.free_blocks() == 0);
  pool.release(a);
  CHECK(a.empty());
  CHECK(pool.free_blocks() == 3);
}
