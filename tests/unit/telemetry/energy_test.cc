#include "orchestrator/telemetry/energy.h"

#include <vector>

#include "tests/support/catch.h"

using namespace sweep::telemetry;

namespace {
constexpr int64_t kSecond = 1'000'000'000;
}

TEST_CASE("energy: a constant power is its product with the window") {
  const std::vector<Point> points{{0, 500}, {kSecond, 500}, {2 * kSecond, 500}};
  CHECK(integrate(points, {kSecond / 4, 7 * kSecond / 4}).value() == Approx(750));
}

TEST_CASE("energy: both ends of the window are interpolated") {
  // 0 W at 0 s rising to 400 W at 4 s: from 1 s to 3 s the mean is 200 W.
  const std::vector<Point> ramp{{0, 0}, {4 * kSecond, 400}};
  CHECK(integrate(ramp, {kSecond, 3 * kSecond}).value() == Approx(400));
  const std::vector<Point> with_middle{{0, 0}, {2 * kSecond, 200}, {4 * kSecond, 400}};
  CHECK(integrate(with_middle, {kSecond, 3 * kSecond}).value() == Approx(400));
}

TEST_CASE("energy: samples outside of the window do not enter") {
  const std::vector<Point> points{{0, 1e6}, {kSecond, 100}, {2 * kSecond, 100}, {3 * kSecond, 1e6}};
  CHECK(integrate(points, {kSecond, 2 * kSecond}).value() == Approx(100));
}

TEST_CASE("energy: nothing is guessed outside of the samples") {
  const std::vector<Point> points{{kSecond, 100}, {2 * kSecond, 100}};
  CHECK(integrate(points, {kSecond, 2 * kSecond}).has_value());
  CHECK_FALSE(integrate(points, {kSecond - 1, 2 * kSecond}).has_value());
  CHECK_FALSE(integrate(points, {kSecond, 2 * kSecond + 1}).has_value());
  CHECK_FALSE(integrate(std::vector<Point>{}, {0, 1}).has_value());
  CHECK_FALSE(value_at(points, 0).has_value());
  CHECK_FALSE(value_at(points, 3 * kSecond).has_value());
  CHECK(value_at(points, 2 * kSecond) == 100.0);
}

TEST_CASE("energy: parts of a window sum up to the whole") {
  std::vector<Point> points;
  for (int64_t i = 0; i <= 100; ++i) points.push_back({i * kSecond / 10, 300.0 + static_cast<double>(i * i % 37)});
  const Span whole{kSecond / 3, 9 * kSecond};
  for (const int64_t cut : {kSecond, 4 * kSecond + 12'345, 8 * kSecond}) {
    const double parts =
        integrate(points, {whole.begin_ns, cut}).value() + integrate(points, {cut, whole.end_ns}).value();
    CHECK(parts == Approx(integrate(points, whole).value()).epsilon(1e-12));
  }
}
