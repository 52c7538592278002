// What this machine can do at most, measured in the same run as everything that is compared with it.
#pragma once

#include <cstdint>

namespace flashmla::bench {

// GFLOP/s of independent multiply-adds in registers, on `threads` threads at once, with the widest registers there are.
double fma_peak(int32_t threads);

}  // namespace flashmla::bench
