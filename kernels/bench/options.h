// The command line of flashmla-bench.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <variant>

#include "kernels/bench/device_shapes.h"

namespace flashmla::bench {

struct HelpOptions {};

// Times of the CPU backend on this machine.
struct CpuOptions {
  std::string shape;  // empty: all
  std::string json;   // where the figures go; may be empty
  int32_t threads = static_cast<int32_t>(std::clamp(std::thread::hardware_concurrency(), 1U, 1024U));
  int32_t repeats = 15;
  bool reference = true;
};

// Times of a CUDA library on a GPU.
struct DeviceOptions {
  std::string library;
  std::string baseline;    // for the transition sweep; may be empty
  std::string plain_read;  // cubin of plain_read.cu
  std::string json;        // where the figures go; may be empty
  std::string plot;        // where the plot of the transition sweep goes; may be empty
  ShapeFilter filter;
  bool shapes = true;
  bool transition = false;
  int32_t replays = 7;
};

// Arguments that make no sense: a message.
struct BadOptions {
  std::string message;
};

using Options = std::variant<HelpOptions, CpuOptions, DeviceOptions, BadOptions>;

// --library chooses the GPU.
Options parse_options(int argc, const char* const* argv);

extern const char* const kUsage;

}  // namespace flashmla::bench
