#include "orchestrator/stats/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "orchestrator/base/rng.h"
#include "tests/support/catch.h"

namespace sweep::stats {

TEST_CASE("describe: figures of 1..100 are the closed-form ones") {
  std::vector<double> values(100);
  std::iota(values.begin(), values.end(), 1.0);
  const auto d = describe(values);
  REQUIRE(d.has_value());
  CHECK(d->count == 100);
  CHECK(*d->mean == Approx(50.5));
  CHECK(*d->stddev == Approx(std::sqrt(100.0 * 101.0 / 12.0)));
  CHECK(*d->min == 1);
  CHECK(*d->max == 100);
  CHECK(*d->p50 == Approx(50.5));
  CHECK(*d->p90 == Approx(90.1));
  CHECK(*d->p99 == Approx(99.01));
}

TEST_CASE("describe: no value gives no figure") {
  const auto d = describe({});
  REQUIRE(d.has_value());
  CHECK(d->count == 0);
  CHECK(!d->mean);
  CHECK(!d->stddev);
  CHECK(!d->min);
  CHECK(!d->max);
  CHECK(!d->p50);
}

TEST_CASE("describe: one value has a mean and no spread") {
  const auto d = describe({7.5});
  REQUIRE(d.has_value());
  CHECK(*d->mean == 7.5);
  CHECK(*d->min == 7.5);
  CHECK(*d->max == 7.5);
  CHECK(!d->stddev);
  CHECK(!d->p50);
}

TEST_CASE("describe: equal values have zero spread and their value as mean exactly") {
  const auto d = describe(std::vector<double>(1000, 0.1));
  REQUIRE(d.has_value());
  CHECK(*d->mean == 0.1);
  CHECK(*d->stddev == 0);
  CHECK(*d->p50 == 0.1);
  CHECK(*d->p99 == 0.1);
}

TEST_CASE("describe: NaN and infinity are refused") {
  CHECK(!describe({1, std::numeric_limits<double>::quiet_NaN()}));
  CHECK(!describe({std::numeric_limits<double>::infinity(), 1}));
  CHECK(!describe({-std::numeric_limits<double>::infinity()}));
}

TEST_CASE("percentile: is refused below the count that one value above it needs") {
  CHECK(minimum_count(kP50) == 2);
  CHECK(minimum_count(kP90) == 10);
  CHECK(minimum_count(kP99) == 100);
  CHECK(minimum_count({999}) == 1000);
  CHECK(minimum_count({0}) == 1);
  std::vector<double> values(100, 1.0);
  CHECK(percentile(values, kP99).has_value());
  values.pop_back();
  CHECK(!percentile(values, kP99).has_value());
  values.resize(10);
  CHECK(percentile(values, kP90).has_value());
  values.pop_back();
  CHECK(!percentile(values, kP90).has_value());
}

TEST_CASE("quantile_linear: ends are the extremes and it interpolates between ranks") {
  const std::vector<double> values{1, 2, 4, 8};
  CHECK(quantile_linear(values, 0) == 1);
  CHECK(quantile_linear(values, 1) == 8);
  CHECK(quantile_linear(values, 0.5) == 3);
  CHECK(quantile_linear(values, 1.0 / 3) == Approx(2));
}

TEST_CASE("describe: the order of the values does not matter, percentiles ascend within the extremes") {
  base::SplitMix64 random(42);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(100 + random.below(200));
    for (double& value : values) value = std::exp(20 * random.uniform() - 10);
    const auto a = describe(values);
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
    const auto b = describe(values);
    REQUIRE((a && b));
    CHECK(*a->mean == *b->mean);
    CHECK(*a->stddev == *b->stddev);
    CHECK(*a->p99 == *b->p99);
    CHECK((*a->min <= *a->p50 && *a->p50 <= *a->p90 && *a->p90 <= *a->p99 && *a->p99 <= *a->max));
    CHECK((*a->min <= *a->mean && *a->mean <= *a->max));
  }
}

TEST_CASE("stable_sum: small values beside large ones are not lost") {
  CHECK(stable_sum(std::vector<double>{1.0, 1e100, 1.0, -1e100}) == 2.0);
}

}  // namespace sweep::stats
