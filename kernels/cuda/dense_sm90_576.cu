#include "kernels/cuda/dense_kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_dense576_sm90() {
  return dense::describe_all<9>();
}

#ifdef DENSE_TRACE
void dense_trace(long long* to) { cudaMemcpyFromSymbol(to, g_trace, sizeof g_trace); }
void dense_times(long long* to) { cudaMemcpyFromSymbol(to, g_times, sizeof g_times); }
#endif
}  // namespace flashmla::cuda
