#include "kernels/cuda/tensor_map.h"

#include <array>

namespace flashmla::cuda {
namespace {

constexpr uint32_t kChunkDims = 64;
constexpr cuuint64_t kChunkBytes = kChunkDims * sizeof(uint16_t);
constexpr int64_t kStrideUnit = 16;         // bytes
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

// Four dimensions, the first of them a chunk's; `strides` of the others, in bytes.
CUresult encode_chunks(Encode encode, const void* base, const std::array<cuuint64_t, 4>& sizes,
                       const std::array<cuuint64_t, 3>& strides, const std::array<cuuint32_t, 4>& box,
                       CUtensorMap& map) {
  // From DRAM to L2, 256 bytes where a box has 128 of a row: the next box wants what lies beside it. Of longer rows
  // that would be read more than once.
  const CUtensorMapL2promotion promotion =
      box[2] == 1 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  const std::array<cuuint32_t, 4> steps = {1, 1, 1, 1};
  return encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(sizes.size()), const_cast<void*>(base),
                sizes.data(), strides.data(), box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

Encode encode_function() {
  static const Encode encode = find_encode();
  return encode;
}

}  // namespace

cudaError_t make_page_map(const Pool& pool, int32_t chunks, int32_t box_chunks, int32_t box_tokens, CUtensorMap& map) {
  const Encode encode = encode_function();
  if (encode == nullptr) return cudaErrorNotSupported;
  const uint64_t page_size = pool.page_size.divisor;
  const std::array<cuuint64_t, 4> sizes = {kChunkDims, page_size, static_cast<cuuint64_t>(chunks),
                                           static_cast<cuuint64_t>(pool.num_slots) / page_size};
  const std::array<cuuint64_t, 3> strides = {static_cast<cuuint64_t>(pool.row_stride), kChunkBytes,
                                             static_cast<cuuint64_t>(pool.page_stride)};
  const std::array<cuuint32_t, 4> box = {kChunkDims, static_cast<cuuint32_t>(box_tokens),
                                         static_cast<cuuint32_t>(box_chunks), 1};
  const CUresult result = encode_chunks(encode, pool.base, sizes, strides, box, map);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

bool make_query_map(const DecodeArguments& a, int32_t chunks, int32_t batch, int32_t box_rows, CUtensorMap& map) {
  const Encode encode = encode_function();
  if (encode == nullptr || !a.q_aligned) return false;
  // Rows of one query token follow those of the one before. A single row, or request, may have any stride.
  int64_t row = a.q_stride.head;
  if (a.num_heads == 1) row = a.s_q == 1 ? int64_t{chunks} * kChunkDims : a.q_stride.token;
  if (a.s_q > 1 && a.q_stride.token != a.num_heads * row) return false;
  const int64_t request = batch == 1 ? a.heads_per_row * row : a.q_stride.batch;
  const auto usable = [](int64_t elements) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(uint16_t));
    return elements > 0 && elements < kStrideLimit / kSize && elements % (kStrideUnit / kSize) == 0;
  };
  if (!usable(row) || !usable(request)) return false;
  const std::array<cuuint64_t, 4> sizes = {kChunkDims, static_cast<cuuint64_t>(a.heads_per_row),
                                           static_cast<cuuint64_t>(chunks), static_cast<cuuint64_t>(batch)};
  const std::array<cuuint64_t, 3> strides = {static_cast<cuuint64_t>(row) * sizeof(uint16_t), kChunkBytes,
                                             static_cast<cuuint64_t>(request) * sizeof(uint16_t)};
  const std::array<cuuint32_t, 4> box = {kChunkDims, static_cast<cuuint32_t>(box_rows), static_cast<cuuint32_t>(chunks),
                                         1};
  return encode_chunks(encode, a.q, sizes, strides, box, map) == CUDA_SUCCESS;
}

}  // namespace flashmla::cuda
