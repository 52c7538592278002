#include "orchestrator/engine/embedded/cpu/layer_math.h"

#include <cmath>

namespace sweep::engine::embedded::cpu {

void rms_norm(const float* from, const float* weight, int64_t size, double epsilon, float* to) {
  constexpr int64_t kLanes = 16;  // independent partial sums: the compiler may not reorder a single one
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += from[i + lane] * from[i + lane];
  }
  for (; i < size; ++i) lanes[i % kLanes] += from[i] * from[i];
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  const auto scale = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(size) + epsilon));
  for (int64_t k = 0; k < size; ++k) to[k] = from[k] * scale * weight[k];
}

void silu_multiply(const float* gate, const float* up, int64_t size, float* to) {
  for (int64_t i = 0; i < size; ++i) to[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
}

Rope::Rope(int64_t dim, double theta, int64_t positions) : half_(dim / 2), positions_(positions) {
  cosines_.resize(static_cast<size_t>(positions * half_));
  sines_.resize(cosines_.size());
  for (int64_t i = 0; i < half_; ++i) {
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    for (int64_t position = 0; position < positions; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      cosines_[static_cast<size_t>(position * half_ + i)] = static_cast<float>(std::cos(angle));
      sines_[static_cast<size_t>(position * half_ + i)] = static_cast<float>(std::sin(angle));
    }
  }
}

void Rope::turn(float* pairs, int64_t position, float direction) const {
  const float* cosines = cosines_.data() + position * half_;
  const float* sines = sines_.data() + position * half_;
  for (int64_t i = 0; i < half_; ++i) {
    const float a = pairs[2 * i];
    const float b = pairs[2 * i + 1];
    const float sine = direction * sines[i];
    pairs[2 * i] = a * cosines[i] - b * sine;
    pairs[2 * i + 1] = a * sine + b * cosines[i];
  }
}

}  // namespace sweep::engine::embedded::cpu
