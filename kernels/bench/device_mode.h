// Times of a CUDA kernel library on a GPU.
#pragma once

#include <optional>
#include <string>

#include "kernels/bench/device_shapes.h"

namespace flashmla::bench {

struct DeviceOptions {
  std::string library;
  std::string baseline;    // for the transition sweep; may be empty
  std::string plain_read;  // cubin of plain_read.cu
  std::string json;        // where the report goes
  std::string plot;        // and the plot of the transition sweep; may be empty
  ShapeFilter filter;
  bool shapes = true;
  bool transition = false;
  int32_t replays = 7;
};

// Nothing, with a message, if the arguments make no sense.
std::optional<DeviceOptions> parse_device_options(int argc, char** argv, std::string& error);

// Returns the exit status: 0 all measured, 3 not (the reason is on stderr).
int run_device_mode(const DeviceOptions& options);

}  // namespace flashmla::bench
