// Times of the CPU backend on this machine; the reference and the fast path in turn, in one run.
#pragma once

namespace flashmla::bench {

constexpr int kUsageExit = 2;

// Returns the exit status; kUsageExit without a message if the arguments make no sense.
int run_cpu_mode(int argc, char** argv);

}  // namespace flashmla::bench
