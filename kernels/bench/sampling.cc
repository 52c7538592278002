#include "kernels/bench/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace flashmla::bench {
namespace {

std::vector<int32_t> shuffled(int64_t count, Random& random) {
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(random.integer(0, static_cast<int32_t>(i) - 1))]);
  }
  return order;
}

// Where token `token` of a request is: its pages lie anywhere in the pool.
int32_t slot_of(const std::vector<int32_t>& pages, int64_t first_page, int32_t token) {
  return pages[static_cast<size_t>(first_page + token / kPageSize)] * kPageSize + token % kPageSize;
}

// Consecutive tokens of a request, one further for each query token.
CacheSelection select_window(const DeviceShape& shape, Random& random) {
  const int32_t span = shape.main_topk + shape.s_q - 1;
  const int32_t pages_per_request = (kPageSize - 1 + span + kPageSize - 1) / kPageSize;
  CacheSelection selection;
  selection.pages = int64_t{pages_per_request} * shape.batch;
  const std::vector<int32_t> pages = shuffled(selection.pages, random);
  for (int32_t b = 0; b < shape.batch; ++b) {
    const int32_t start = random.integer(0, kPageSize - 1);
    for (int32_t t = 0; t < shape.s_q; ++t) {
      for (int32_t i = 0; i < shape.main_topk; ++i) {
        selection.slots.push_back(slot_of(pages, int64_t{b} * pages_per_request, start + t + i));
      }
    }
    selection.unique_tokens += span;
  }
  return selection;
}

// `topk` different tokens of `tokens` for every query token, independently.
CacheSelection select_random(const DeviceShape& shape, int32_t topk, int32_t tokens, Random& random) {
  const int32_t pages_per_request = tokens / kPageSize;
  CacheSelection selection;
  selection.pages = int64_t{pages_per_request} * shape.batch;
  selection.slots.reserve(static_cast<size_t>(shape.rows()) * static_cast<size_t>(topk));
  const std::vector<int32_t> pages = shuffled(selection.pages, random);
  std::vector<int32_t> order(static_cast<size_t>(tokens));
  std::iota(order.begin(), order.end(), 0);
  std::vector<int32_t> seen_by(static_cast<size_t>(tokens), -1);
  for (int32_t b = 0; b < shape.batch; ++b) {
    for (int32_t t = 0; t < shape.s_q; ++t) {
      // The first steps of a shuffle; what the last query token left is as good a start as any.
      for (int32_t i = 0; i < topk; ++i) {
        std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(random.integer(i, tokens - 1))]);
        const int32_t token = order[static_cast<size_t>(i)];
        selection.slots.push_back(slot_of(pages, int64_t{b} * pages_per_request, token));
        int32_t& seen = seen_by[static_cast<size_t>(token)];
        if (seen != b) ++selection.unique_tokens;
        seen = b;
      }
    }
  }
  return selection;
}

CacheSelection select_all(const DeviceShape& shape, Random& random) {
  CacheSelection selection;
  selection.pages = int64_t{(shape.seq_len + kPageSize - 1) / kPageSize} * shape.batch;
  selection.slots = shuffled(selection.pages, random);
  selection.unique_tokens = int64_t{shape.seq_len} * shape.batch;
  return selection;
}

int64_t token_bytes(const DeviceShape& shape) {
  return info(shape.kind).data_bytes + info(shape.kind).scale_bytes;
}

}  // namespace

Selection select_tokens(const DeviceShape& shape, Random& random) {
  Selection selection;
  switch (shape.kind) {
    case CacheKind::kDense:
      selection.main = select_all(shape, random);
      break;
    case CacheKind::kV32:
      selection.main = select_random(shape, shape.main_topk, kV32Tokens, random);
      break;
    case CacheKind::kV4:
    case CacheKind::kV41:
    case CacheKind::kV41Fp4:
      selection.main = select_window(shape, random);
      if (shape.extra_topk > 0) selection.extra = select_random(shape, shape.extra_topk, kCompressedTokens, random);
      break;
  }
  return selection;
}

int64_t unique_bytes(const DeviceShape& shape, const Selection& selection) {
  return selection.unique_tokens() * token_bytes(shape);
}

int64_t attended_bytes(const DeviceShape& shape, const Selection& selection) {
  if (shape.dense()) return unique_bytes(shape, selection);
  return static_cast<int64_t>(selection.main.slots.size() + selection.extra.slots.size()) * token_bytes(shape);
}

int64_t cold_sets(int64_t bytes_per_launch) {
  const auto sets = static_cast<int64_t>(kColdBytes / static_cast<double>(std::max<int64_t>(bytes_per_launch, 1))) + 1;
  return std::clamp<int64_t>(sets, 2, kMaxColdSets);
}

}  // namespace flashmla::bench
