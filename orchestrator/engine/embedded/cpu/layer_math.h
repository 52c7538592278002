// Row-wise arithmetic of the decoder that is too small for simd.h. All sums run in a fixed order.
#pragma once

#include <cstdint>
#include <vector>

namespace sweep::engine::embedded::cpu {

// to = from / rms(from) * weight; `to` may be `from`.
void rms_norm(const float* from, const float* weight, int64_t size, double epsilon, float* to);

// to[i] = silu(gate[i]) * up[i]
void silu_multiply(const float* gate, const float* up, int64_t size, float* to);

// Rotary position embedding over neighbouring pairs, from tables for positions below `positions`.
class Rope {
 public:
  Rope(int64_t dim, double theta, int64_t positions);

  int64_t positions() const { return positions_; }
  void rotate(float* pairs, int64_t position) const { turn(pairs, position, 1.0F); }
  void rotate_back(float* pairs, int64_t position) const { turn(pairs, position, -1.0F); }

 private:
  void turn(float* pairs, int64_t position, float direction) const;

  int64_t half_;
  int64_t positions_;
  std::vector<float> cosines_;  // [positions, half]
  std::vector<float> sines_;
};

}  // namespace sweep::engine::embedded::cpu
