// Buffers of one thread that keep their memory from call to call.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace sweep::engine::embedded::cpu {

class Scratch {
 public:
  static constexpr size_t kBuffers = 6;

  // Buffer number `which`, at least `floats` long; its content is whatever the last user left.
  float* get(size_t which, int64_t floats) {
    auto& buffer = buffers_[which];
    if (buffer.size() < static_cast<size_t>(floats)) buffer.resize(static_cast<size_t>(floats));
    return buffer.data();
  }

  static Scratch& of_this_thread() {
    thread_local Scratch scratch;
    return scratch;
  }

 private:
  std::array<std::vector<float>, kBuffers> buffers_;
};

}  // namespace sweep::engine::embedded::cpu
