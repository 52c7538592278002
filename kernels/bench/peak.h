// What this machine can do at most, measured in the same run as everything that is compared with it.
#pragma once

namespace flashmla::bench {

// GFLOP/s of independent multiply-adds in the widest registers there are, on one core.
double core_fma_peak();

}  // namespace flashmla::bench
