// Times of the CPU backend on this machine; the reference and the fast path in turn, in one run.
#pragma once

#include "kernels/bench/options.h"

namespace flashmla::bench {

// Returns the exit status: 0, or 3 if the figures could not be written.
int run_cpu_mode(const CpuOptions& options);

}  // namespace flashmla::bench
