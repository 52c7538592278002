// A paged pool of records and a selection from it. Slots that nobody selects, and the gaps between pages, are NaN.
#pragma once

#include <cstdint>
#include <vector>

#include "flashmla/flashmla.h"
#include "kernels/gate/cases.h"
#include "kernels/oracle/random.h"

namespace flashmla::gate {

struct CacheShape {
  flashmla_kv_format format;
  int32_t topk;
  int32_t page_size;
  bool spoiled;  // all query tokens of request 0 select the spoiler of the case first
};

struct CacheMemory {
  std::vector<uint8_t>& pool;
  std::vector<int32_t>& indices;
  std::vector<int32_t>& topk_length;
};

// The result points into `memory`.
flashmla_sparse_kv make_sparse_cache(const Case& one, const CacheShape& shape, Random& random, CacheMemory memory);

}  // namespace flashmla::gate
