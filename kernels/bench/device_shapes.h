// The shapes that are timed on a GPU: those for which upstream's times are recorded, with the heads a rank really has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flashmla/flashmla.h"

namespace flashmla::bench {

enum class CacheKind : uint8_t { kV4, kV32, kV41, kV41Fp4, kDense };

struct CacheKindInfo {
  CacheKind kind;
  const char* name;           // in shape names and JSON
  flashmla_kv_format format;  // of sparse kinds
  int32_t d_qk;
  int32_t data_bytes, scale_bytes;  // per token
  int64_t page_stride;              // bytes, of pages of kPageSize tokens; padded as upstream does it
};

constexpr int32_t kPageSize = 64;

const CacheKindInfo& info(CacheKind kind);

struct DeviceShape {
  char section = 'A';  // of the tables: A, F (V4), B (V3.2), C (dense), N (V4.1)
  CacheKind kind = CacheKind::kV4;
  int32_t num_heads = 8;
  int32_t s_q = 1;
  int32_t batch = 1;
  int32_t main_topk = 0;
  int32_t extra_topk = 0;
  int32_t seq_len = 0;  // dense only

  bool dense() const { return kind == CacheKind::kDense; }
  int32_t rows() const { return batch * s_q; }
  // "v4-128+512/h8/sq8/b1", "dense-8192/h16/sq1/b32".
  std::string name() const;
};

struct ShapeFilter {
  std::string sections;        // letters; empty: A, B, F, C
  std::string part_of_name;    // empty: all
  std::vector<int32_t> heads;  // empty: those in `part_of_name`, or of the section
  bool quick = false;          // a few of each section
};

// The primary point (one request, eight query tokens, eight heads, 128 + 512 tokens) first, if the filter lets it pass.
std::vector<DeviceShape> device_shapes(const ShapeFilter& filter);

// What is compared in the transition sweep: V4, 128 + 512 tokens, `query_rows` as up to eight tokens of each request.
DeviceShape transition_shape(int32_t query_rows, int32_t num_heads);
std::vector<int32_t> transition_rows();

}  // namespace flashmla::bench
