#include "kernels/cuda/tensor_map.h"

#include <array>

namespace flashmla::cuda {
namespace {

constexpr int32_t kMostBoxTokens = 64;
constexpr int32_t kLeastBoxTokens = 16;
constexpr int32_t kBoxDims = 64;
constexpr int64_t kStrideLimit = int64_t{1} << 40;  // of bytes, in a tensor map
constexpr unsigned kDriverVersion = 12000;          // the first with tensor maps

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, without a link to the driver's library.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kDriverVersion, cudaEnableDefault, &result);
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

}  // namespace

int32_t box_tokens(const Pool& pool) {
  const auto page_size = static_cast<int32_t>(pool.page_size.divisor);
  if (pool.page_stride >= kStrideLimit || pool.row_stride >= kStrideLimit || pool.num_slots == 0) return 0;
  int32_t tokens = kMostBoxTokens;
  while (page_size % tokens != 0) tokens /= 2;
  return tokens >= kLeastBoxTokens ? tokens : 0;
}

cudaError_t make_page_map(const Pool& pool, int32_t dims, CUtensorMap& map, int32_t& tokens) {
  static const Encode encode = find_encode();
  if (encode == nullptr) return cudaErrorNotSupported;
  tokens = box_tokens(pool);
  const auto page_size = static_cast<int64_t>(pool.page_size.divisor);
  const std::array<cuuint64_t, 3> sizes = {static_cast<cuuint64_t>(dims), static_cast<cuuint64_t>(page_size),
                                           static_cast<cuuint64_t>(pool.num_slots / page_size)};
  const std::array<cuuint64_t, 2> strides = {static_cast<cuuint64_t>(pool.row_stride),
                                             static_cast<cuuint64_t>(pool.page_stride)};
  const std::array<cuuint32_t, 3> box = {kBoxDims, static_cast<cuuint32_t>(tokens), 1};
  const std::array<cuuint32_t, 3> steps = {1, 1, 1};
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(sizes.size()),
                                 const_cast<uint8_t*>(pool.base), sizes.data(), strides.data(), box.data(),
                                 steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace flashmla::cuda
