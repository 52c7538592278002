// Sizes and addresses of the quantised KV records; every backend, the oracle and the checks read them from here.
#pragma once

#include <cstdint>
#include <cstring>

#include "flashmla/flashmla.h"

namespace flashmla {

constexpr int32_t kValueDims = 512;       // d_v of every format, and of dense decode
constexpr int32_t kDenseDimsShort = 512;  // d_qk of dense decode: V is the whole key
constexpr int32_t kDenseDimsLong = 576;   // d_qk of dense decode: V is the first 512 dimensions
constexpr size_t kWorkspaceAlignment = 64;

// A page holds page_size data rows and then page_size scale rows; V32_656 keeps its scales inside the data row.
struct RecordLayout {
  int32_t d_qk;
  int32_t data_bytes;            // per token
  int32_t scale_bytes;           // per token, behind all data rows of the page
  int32_t scale_offset_in_data;  // -1: the scales have rows of their own
};

// The format as the caller's bytes have it: an unknown value must not be read as an enumerator.
inline int32_t format_number(const flashmla_sparse_kv& kv) {
  int32_t number = 0;
  static_assert(sizeof number == sizeof kv.format);
  std::memcpy(&number, &kv.format, sizeof number);
  return number;
}

inline bool is_known_format(int32_t number) {
  return number >= FLASHMLA_KV_V4_584 && number <= FLASHMLA_KV_V41_FP4_288;
}

// `format` must be known.
inline RecordLayout record_layout(flashmla_kv_format format) {
  switch (format) {
    case FLASHMLA_KV_V4_584:
      return {512, 576, 8, -1};
    case FLASHMLA_KV_V32_656:
      return {576, 656, 0, 512};
    case FLASHMLA_KV_V41_528:
      return {512, 512, 16, -1};
    case FLASHMLA_KV_V41_FP4_288:
      return {512, 256, 32, -1};
  }
  return {0, 0, 0, -1};
}

inline int64_t page_bytes(flashmla_kv_format format, int32_t page_size) {
  const RecordLayout layout = record_layout(format);
  return int64_t{page_size} * (layout.data_bytes + layout.scale_bytes);
}

struct Record {
  const uint8_t* data;
  const uint8_t* scales;
};

// `slot` must be inside the pool.
inline Record record_at(const flashmla_sparse_kv& kv, int32_t slot) {
  const RecordLayout layout = record_layout(kv.format);
  const int64_t offset = slot % kv.page_size;
  const uint8_t* page = static_cast<const uint8_t*>(kv.pool) + (slot / kv.page_size) * kv.page_stride_bytes;
  const uint8_t* data = page + offset * layout.data_bytes;
  if (layout.scale_offset_in_data >= 0) return {data, data + layout.scale_offset_in_data};
  return {data, page + int64_t{kv.page_size} * layout.data_bytes + offset * layout.scale_bytes};
}

}  // namespace flashmla
