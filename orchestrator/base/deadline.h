// A moment after which nobody waits any more: one budget of time for several steps.
#pragma once

#include <algorithm>
#include <chrono>

namespace sweep::base {

class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds budget) : end_(std::chrono::steady_clock::now() + budget) {}

  bool passed() const { return std::chrono::steady_clock::now() >= end_; }

  // What is left of `most`. At least 1 ms, even after the end: where 0 stands for no limit it must not come out.
  std::chrono::milliseconds at_most(std::chrono::milliseconds most) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
    return std::clamp(left, std::chrono::milliseconds(1), std::max(most, std::chrono::milliseconds(1)));
  }

 private:
  std::chrono::steady_clock::time_point end_;
};

}  // namespace sweep::base
