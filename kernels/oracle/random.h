// A small seeded generator for test data: the same seed gives the same data everywhere.
#pragma once

#include <cmath>
#include <cstdint>

namespace flashmla {

class Random {  // SplitMix64
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  // In [low, high].
  int32_t integer(int32_t low, int32_t high) {
    const auto range = static_cast<uint64_t>(int64_t{high} - low + 1);
    return static_cast<int32_t>(low + static_cast<int64_t>(next() % range));
  }

  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Sum of twelve uniform numbers: close enough to a normal distribution, and exact arithmetic on every machine.
  float normal() {
    double sum = -6;
    for (int i = 0; i < 3; ++i) {
      const uint64_t bits = next();
      for (int part = 0; part < 4; ++part) sum += static_cast<double>((bits >> (16 * part)) & 0xffffU) * 0x1p-16;
    }
    return static_cast<float>(sum);
  }

 private:
  uint64_t state_;
};

}  // namespace flashmla
