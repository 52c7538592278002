// The kernels of flashmla-bench's module, as the fake driver runs them.
#pragma once

#include <cstdint>

// The one that fills memory with repetitions of a block is remembered instead of done, and the one that folds what it
// reads is computed from that: what the benchmark reads is checked as it is on a GPU, and large pools are never
// touched. Others do nothing. With FAKE_CUDA_WRONG_FOLD the fold is of other bytes.
void fake_run_kernel(const char* name, void** arguments);

// The memory at this address is freed.
void fake_forget(uint64_t address);
