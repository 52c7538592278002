#include "kernels/gate/sparse_cache.h"

#include <algorithm>
#include <cstring>

#include "flashmla/records.h"
#include "kernels/api/layout.h"

namespace flashmla::gate {
namespace {

constexpr uint8_t kPoison = 0xff;  // NaN as E4M3, UE8M0, BF16 and FP32

float token_scale(Logits logits, Random& random) {
  if (logits != Logits::kLongTail) return 1.0F;
  return random.integer(1, 50) == 1 ? 4.0F : 0.3F;
}

void write_record(const Case& one, const flashmla_sparse_kv& kv, std::vector<uint8_t>& pool, int32_t slot,
                  Random& random) {
  float values[576];
  const float scale = token_scale(one.logits, random);
  for (float& value : values) value = scale * random.normal();
  uint8_t* page = pool.data() + slot / kv.page_size * kv.page_stride_bytes;
  const int32_t offset = slot % kv.page_size;
  switch (kv.format) {
    case FLASHMLA_KV_V4_584:
      flashmla_v4_write(page, kv.page_size, offset, values, values + 448);
      break;
    case FLASHMLA_KV_V32_656:
      flashmla_v32_write(page, kv.page_size, offset, values, values + 512);
      break;
    case FLASHMLA_KV_V41_528:
      flashmla_v41_write(page, kv.page_size, offset, values);
      break;
    case FLASHMLA_KV_V41_FP4_288:
      flashmla_v41_fp4_write(page, kv.page_size, offset, values);
      break;
  }
  if (!one.arbitrary_scales || kv.format != FLASHMLA_KV_V32_656) return;
  for (int32_t group = 0; group < 4; ++group) {
    uint8_t* place = page + int64_t{offset} * 656 + 512 + 4 * group;
    float stored = 0;
    std::memcpy(&stored, place, sizeof stored);
    stored *= static_cast<float>(0.5 + random.uniform());
    std::memcpy(place, &stored, sizeof stored);
  }
}

// Draws slots from [0, slots).
class Selector {
 public:
  Selector(Selection selection, int32_t slots, int32_t page_size, Random& random)
      : selection_(selection), slots_(slots), page_size_(page_size), random_(random) {}

  void start_request() { window_ = random_.integer(0, slots_ - 1); }

  // `position` counts the selected tokens of query token `token`.
  int32_t draw(int32_t token, int32_t position) {
    switch (selection_) {
      case Selection::kRandom:
        break;
      case Selection::kWindow:
        return (window_ + token + position) % slots_;
      case Selection::kDuplicates:
        return std::min(slots_ - 1, 7 * random_.integer(0, 4));
      case Selection::kPageEdges: {
        const int32_t page = random_.integer(0, slots_ / page_size_ - 1);
        return page * page_size_ + (random_.integer(0, 1) == 0 ? 0 : page_size_ - 1);
      }
    }
    return random_.integer(0, slots_ - 1);
  }

 private:
  Selection selection_;
  int32_t slots_;
  int32_t page_size_;
  Random& random_;
  int32_t window_ = 0;
};

bool is_invalid(Invalid invalid, int32_t row, Random& random) {
  switch (invalid) {
    case Invalid::kNone:
      return false;
    case Invalid::kSome:
      return random.integer(1, 4) == 1;
    case Invalid::kWholeRows:
      return row % 2 == 0;
    case Invalid::kAll:
      return true;
  }
  return false;
}

}  // namespace

flashmla_sparse_kv make_sparse_cache(const Case& one, const CacheShape& shape, Random& random, CacheMemory memory) {
  constexpr int32_t kGarbage = 0x7ffffff0;
  const int32_t wanted_slots = std::max(64, shape.topk + shape.topk / 4);
  const int32_t pages = (wanted_slots + shape.page_size - 1) / shape.page_size + 1;
  const int32_t slots = (pages - 1) * shape.page_size;  // the last page is for the NaN token alone
  flashmla_sparse_kv kv{};
  kv.format = one.format;
  kv.num_pages = pages;
  kv.page_size = shape.page_size;
  // Some cases with pages padded as upstream does it (a multiple of 576), some with pages that touch.
  kv.page_stride_bytes = page_bytes(one.format, shape.page_size);
  if (one.seed % 2 == 0) kv.page_stride_bytes = (kv.page_stride_bytes + 575) / 576 * 576;
  if (one.strided) kv.page_stride_bytes += 37;
  kv.topk = shape.topk;
  const int64_t gap = one.strided ? 3 : 0;
  kv.indices_query_stride = shape.topk + gap;
  kv.indices_batch_stride = kv.indices_query_stride * one.s_q + gap;

  memory.pool.assign(static_cast<size_t>(pages * kv.page_stride_bytes), kPoison);
  memory.indices.assign(static_cast<size_t>(kv.indices_batch_stride * one.batch), kGarbage);
  std::vector<bool> written(static_cast<size_t>(slots), false);
  Selector selector(one.selection, slots, shape.page_size, random);
  for (int32_t b = 0; b < one.batch; ++b) {
    const int32_t length = one.lengths && b != 1 ? random.integer(0, shape.topk) : shape.topk;
    memory.topk_length.push_back(length);
    selector.start_request();
    for (int32_t t = 0; t < one.s_q; ++t) {
      int32_t* row = memory.indices.data() + b * kv.indices_batch_stride + t * kv.indices_query_stride;
      for (int32_t i = 0; i < length; ++i) {
        if (shape.nan_in_request_0 && b == 0 && i == 0) {
          row[i] = slots;
          continue;
        }
        row[i] = is_invalid(one.invalid, b * one.s_q + t, random) ? -1 : selector.draw(t, i);
        if (row[i] < 0 || written[static_cast<size_t>(row[i])]) continue;
        written[static_cast<size_t>(row[i])] = true;
        write_record(one, kv, memory.pool, row[i], random);
      }
    }
  }
  kv.pool = memory.pool.data();
  kv.indices = memory.indices.data();
  if (one.lengths) kv.topk_length = memory.topk_length.data();
  return kv;
}

}  // namespace flashmla::gate
