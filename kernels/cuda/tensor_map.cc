#include "kernels/cuda/tensor_map.h"

#include <array>

namespace flashmla::cuda {
namespace {

constexpr uint32_t kChunkDims = 64;
constexpr unsigned kDriverVersion = 12000;  // the first with tensor maps

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

cudaError_t make_page_map(const Pool& pool, int32_t chunks, int32_t box_chunks, int32_t box_tokens, CUtensorMap& map) {
  static const Encode encode = find_encode();
  if (encode == nullptr) return cudaErrorNotSupported;
  const uint64_t page_size = pool.page_size.divisor;
  const std::array<cuuint64_t, 4> sizes = {kChunkDims, page_size, static_cast<cuuint64_t>(chunks),
                                           static_cast<cuuint64_t>(pool.num_slots) / page_size};
  const std::array<cuuint64_t, 3> strides = {static_cast<cuuint64_t>(pool.row_stride), kChunkDims * sizeof(uint16_t),
                                             static_cast<cuuint64_t>(pool.page_stride)};
  const std::array<cuuint32_t, 4> box = {kChunkDims, static_cast<cuuint32_t>(box_tokens),
                                         static_cast<cuuint32_t>(box_chunks), 1};
  const std::array<cuuint32_t, 4> steps = {1, 1, 1, 1};
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(sizes.size()),
                                 const_cast<uint8_t*>(pool.base), sizes.data(), strides.data(), box.data(),
                                 steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace flashmla::cuda
