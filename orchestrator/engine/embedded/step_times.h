// Device time of the steps of a DSpark loop.
#pragma once

#include <cstdint>

namespace sweep::engine::embedded {

// Sums in seconds. A verification step is one forward pass of at most 16 query tokens per sequence with its logits.
struct StepTimes {
  int64_t verify_steps = 0;
  double verify_s = 0;
  int64_t draft_steps = 0;
  double draft_s = 0;
  // Of every so many-th verification step, whose parts are timed one by one (that step is not among `verify_steps`).
  int64_t profiled_steps = 0;
  double profiled_s = 0;
  double attention_s = 0;  // the calls of the kernel library in them

  // Share of the attention kernels in a verification step; 0 if none was profiled.
  double attention_share() const { return profiled_s > 0 ? attention_s / profiled_s : 0; }
};

}  // namespace sweep::engine::embedded
