// Sparse and dense decode on the CPU, on arguments that have been checked.
#pragma once

#include <cstddef>

#include "flashmla/flashmla.h"
#include "kernels/cpu/tile_ops.h"
#include "kernels/cpu/worker_pool.h"

namespace flashmla::cpu {

// Scratch bytes for `threads` threads.
size_t decode_workspace(int32_t threads, int32_t num_heads, int32_t d_qk);

// `params.workspace` has decode_workspace(pool.size(), ...) bytes.
void sparse_decode(const flashmla_sparse_decode_params& params, const TileOps& ops, WorkerPool& pool);
void dense_decode(const flashmla_dense_decode_params& params, const TileOps& ops, WorkerPool& pool);

}  // namespace flashmla::cpu
