// Times of a CUDA kernel library on a GPU.
#pragma once

#include "kernels/bench/options.h"

namespace flashmla::bench {

// Returns the exit status: 0 all was measured, 3 not (the reason is on stderr).
int run_device_mode(const DeviceOptions& options);

}  // namespace flashmla::bench
