// The kernels as the host code sees them.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "kernels/cuda/arguments.h"

namespace flashmla::cuda {

constexpr int32_t kMaxParts = 64;

struct Grid {
  int32_t rows;         // sparse: query tokens of all requests; dense: requests
  int32_t head_blocks;  // blocks that share a row's heads
  int32_t splits;       // blocks of a cluster that share a row's tokens
  int32_t parts;        // clusters that share a row's tokens, up to kMaxParts; with more than one, combine() follows
  int32_t clusters;     // launched: rows * parts, or fewer that take rows in turn (Kernel::takes_turns)
};

// A rough model of one block, fitted to an H200 (PERF.md), in microseconds.
struct BlockTime {
  double start = 0;             // of its first row, all but the tokens
  double per_token = 0;         // where the block has a multiprocessor to itself
  double per_token_shared = 0;  // where two share one; 0: they never do
  double merge = 0;             // of a cluster of more than one block,
  double per_split = 0;         // and for each of its blocks
  double again = 0;             // of each further row (Kernel::takes_turns)
  double per_copied = 0;        // for each token, besides those that count (Kernel::sizes)
  double crowded = 0;           // where as many clusters run as can at a time; in proportion if fewer
  double odd = 0;               // of a cluster of an odd number of blocks: multiprocessors come in pairs
};

struct Kernel {
  int32_t heads;  // of a block
  BlockTime time;
  uint32_t splits;   // bit n: n blocks can merge in their shared memory
  bool takes_turns;  // a block that has a row to itself can go on with another row
  int32_t shared_bytes;
  int32_t threads;
  int32_t step_tokens = 1;     // that a block works on at a time
  std::vector<int32_t> sizes;  // numbers of tokens that there is code for, instead; the last one is the most
  int32_t slices = 1;          // dense on sm_90a: blocks that share the value dimensions of the same tokens
  bool lets_combine_start;     // while it still works itself
  const void* function;
  cudaError_t (*launch)(const Kernel& kernel, const DecodeArguments& arguments, const Grid& grid, cudaStream_t stream);
};

// What the runtime needs to know of a launch of `blocks` in clusters of `splits`.
class ClusterLaunch {
 public:
  ClusterLaunch(const Kernel& kernel, dim3 blocks, int32_t splits, cudaStream_t stream) {
    config_.gridDim = blocks;
    config_.blockDim = dim3(static_cast<unsigned>(kernel.threads), 1, 1);
    config_.dynamicSmemBytes = static_cast<size_t>(kernel.shared_bytes);
    config_.stream = stream;
    cluster_.id = cudaLaunchAttributeClusterDimension;
    cluster_.val.clusterDim.x = static_cast<unsigned>(splits);
    cluster_.val.clusterDim.y = 1;
    cluster_.val.clusterDim.z = 1;
    config_.attrs = &cluster_;
    config_.numAttrs = 1;
  }
  // The configuration points to the attribute.
  ClusterLaunch(const ClusterLaunch&) = delete;
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;

  // Blocks that are clusters of their own are launched without any.
  ClusterLaunch& without_clusters_of_one() {
    if (cluster_.val.clusterDim.x == 1) config_.numAttrs = 0;
    return *this;
  }

  const cudaLaunchConfig_t& config() const { return config_; }

 private:
  cudaLaunchConfig_t config_{};
  cudaLaunchAttribute cluster_{};
};

constexpr uint32_t kAnySplits = (2U << kMaxSplits) - 2;  // of Kernel::splits

// Ordered by the number of heads; of one number there may be several, for few and for many tokens in a block.
using Kernels = std::vector<Kernel>;

// Those of every architecture.
Kernels kernels_v4();
Kernels kernels_v32();
Kernels kernels_v41();
Kernels kernels_v41_fp4();
Kernels kernels_dense576();
Kernels kernels_dense512();
// Those for few tokens in a block.
Kernels kernels_v4_short();
Kernels kernels_v32_short();
// Those for many tokens, up to 16 heads; none for other architectures than sm_90a.
Kernels kernels_v4_long();
Kernels kernels_v32_long();
// More for sm_90a; none for other architectures.
Kernels kernels_v4_sm90();
Kernels kernels_v32_sm90();
Kernels kernels_dense576_sm90();  // for pages as box_tokens() (dense_plan.h) says
Kernels kernels_dense512_sm90();

// Results of clusters in a layout of their own (combine.cu).
struct Partials {
  const float* values;
  int32_t parts;
};

// Adds up the parts of every row; `heads`: of a row (dense: of all its query tokens). `early`: the kernel before lets
// it start while it still works itself.
cudaError_t combine(const DecodeArguments& arguments, int32_t rows, int32_t heads, bool early, cudaStream_t stream);
// The same of two kernels' parts, of the same rows and heads.
cudaError_t combine_two(const DecodeArguments& arguments, const Partials& more, int32_t rows, int32_t heads,
                        cudaStream_t stream);

}  // namespace flashmla::cuda
