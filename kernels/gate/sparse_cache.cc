#include "kernels/gate/sparse_cache.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "flashmla/records.h"
#include "kernels/api/layout.h"
#include "kernels/gate/numbers.h"

namespace flashmla::gate {
namespace {

constexpr uint8_t kPoison = 0xff;  // NaN as E4M3, UE8M0, BF16 and FP32

// Replaces the scales of a written record, and stretches the dimensions that have none alike.
void replace_scales(const Case& one, const flashmla_sparse_kv& kv, uint8_t* page, int32_t offset, Random& random) {
  const RecordLayout layout = record_layout(kv.format);
  uint8_t* data = page + int64_t{offset} * layout.data_bytes;
  uint8_t* scales = page + int64_t{kv.page_size} * layout.data_bytes + int64_t{offset} * layout.scale_bytes;
  auto power = [&] { return flashmla_power_of_two(draw_scale_exponent(one.scales, random)); };
  auto stretch = [&](uint8_t* bf16) {
    const float factor = power();
    for (int32_t i = 0; i < 64; ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, bf16 + 2 * i, sizeof bits);
      bits = flashmla_to_bf16(flashmla_bits_float(uint32_t{bits} << 16) * factor);
      std::memcpy(bf16 + 2 * i, &bits, sizeof bits);
    }
  };
  switch (kv.format) {
    case FLASHMLA_KV_V4_584:
    case FLASHMLA_KV_V41_528:
      for (int32_t group = 0; group < (kv.format == FLASHMLA_KV_V4_584 ? 7 : 16); ++group) {
        scales[group] = static_cast<uint8_t>(127 + draw_scale_exponent(one.scales, random));
      }
      if (kv.format == FLASHMLA_KV_V4_584) stretch(data + 448);
      break;
    case FLASHMLA_KV_V32_656:
      for (int32_t group = 0; group < 4; ++group) {
        const float scale = power() * static_cast<float>(0.5 + random.uniform());
        std::memcpy(data + 512 + 4 * group, &scale, sizeof scale);
      }
      stretch(data + 528);
      break;
    case FLASHMLA_KV_V41_FP4_288:
      for (int32_t group = 0; group < 32; ++group) scales[group] = draw_scale_code(one.scales, random);
      break;
  }
}

// Multiplies the FP32 scales of a V32 record with numbers that are no powers of two.
void blur_scales(uint8_t* data, Random& random) {
  for (int32_t group = 0; group < 4; ++group) {
    float stored = 0;
    std::memcpy(&stored, data + 512 + 4 * group, sizeof stored);
    stored *= static_cast<float>(0.5 + random.uniform());
    std::memcpy(data + 512 + 4 * group, &stored, sizeof stored);
  }
}

void write_record(const Case& one, const flashmla_sparse_kv& kv, uint8_t* pool, int32_t slot, Random& random) {
  float values[576];
  const float size = draw_token_size(one.logits, random);
  for (float& value : values) value = draw_key(one.logits, size, random);
  uint8_t* page = pool + slot / kv.page_size * kv.page_stride_bytes;
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
  if (replaces_scales(one.scales)) replace_scales(one, kv, page, offset, random);
  if (one.scales == Scales::kArbitrary && kv.format == FLASHMLA_KV_V32_656) {
    blur_scales(page + int64_t{offset} * 656, random);
  }
}

// The token that spoils its request: a NaN token is one nobody has written.
void write_spoiler(const Case& one, const flashmla_sparse_kv& kv, uint8_t* pool, int32_t slot, Random& random) {
  if (one.spoiler != Spoiler::kPlusInfinity && one.spoiler != Spoiler::kMinusInfinity) return;
  write_record(one, kv, pool, slot, random);
  const RecordLayout layout = record_layout(kv.format);
  const uint16_t infinity = one.spoiler == Spoiler::kPlusInfinity ? 0x7f80 : 0xff80;
  // The last dimension is BF16 in both formats that have such dimensions; it is the last of the data row.
  uint8_t* page = pool + slot / kv.page_size * kv.page_stride_bytes;
  std::memcpy(page + int64_t{slot % kv.page_size + 1} * layout.data_bytes - 2, &infinity, sizeof infinity);
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
    case Invalid::kOutside:
      return random.integer(1, 4) == 1;
    case Invalid::kWholeRows:
      return row % 2 == 0;
    case Invalid::kAll:
      return true;
  }
  return false;
}

// What stands in the list where there is no token.
int32_t no_token(Invalid invalid, const flashmla_sparse_kv& kv, Random& random) {
  if (invalid != Invalid::kOutside) return -1;
  const auto slots = static_cast<int32_t>(kv.num_pages * kv.page_size);
  const int32_t outside[] = {-2, std::numeric_limits<int32_t>::min(), slots, std::numeric_limits<int32_t>::max()};
  return outside[random.integer(0, 3)];
}

}  // namespace

flashmla_sparse_kv make_sparse_cache(const Case& one, const CacheShape& shape, Random& random, CacheMemory memory) {
  constexpr int32_t kGarbage = 0x7ffffff0;
  const int32_t wanted_slots = std::max(64, shape.topk + shape.topk / 4);
  const int32_t pages = (wanted_slots + shape.page_size - 1) / shape.page_size + 1;
  const int32_t slots = (pages - 1) * shape.page_size;  // the last page is for the spoiler alone
  flashmla_sparse_kv kv{};
  kv.format = shape.format;
  kv.num_pages = pages;
  kv.page_size = shape.page_size;
  // Some cases with pages padded as upstream does it (a multiple of 576), some with pages that touch.
  kv.page_stride_bytes = page_bytes(shape.format, shape.page_size);
  if (one.seed % 2 == 0) kv.page_stride_bytes = (kv.page_stride_bytes + 575) / 576 * 576;
  if (one.strided || one.unaligned) kv.page_stride_bytes += 37;
  const int64_t pool_offset = one.unaligned ? 1 : 0;
  kv.topk = shape.topk;
  const int64_t gap = one.strided ? 3 : 0;
  kv.indices_query_stride = shape.topk + gap;
  kv.indices_batch_stride = kv.indices_query_stride * one.s_q + gap;

  memory.pool.assign(static_cast<size_t>(pool_offset + pages * kv.page_stride_bytes), kPoison);
  uint8_t* pool = memory.pool.data() + pool_offset;
  kv.pool = pool;
  memory.indices.assign(static_cast<size_t>(kv.indices_batch_stride * one.batch), kGarbage);
  std::vector<bool> written(static_cast<size_t>(slots), false);
  Selector selector(one.selection, slots, shape.page_size, random);
  if (shape.spoiled) write_spoiler(one, kv, pool, slots, random);
  for (int32_t b = 0; b < one.batch; ++b) {
    const int32_t length = one.lengths && b != 1 ? random.integer(0, shape.topk) : shape.topk;
    memory.topk_length.push_back(length);
    selector.start_request();
    for (int32_t t = 0; t < one.s_q; ++t) {
      int32_t* row = memory.indices.data() + b * kv.indices_batch_stride + t * kv.indices_query_stride;
      for (int32_t i = 0; i < length; ++i) {
        if (shape.spoiled && b == 0 && i == 0) {
          row[i] = slots;
        } else if (is_invalid(one.invalid, b * one.s_q + t, random)) {
          row[i] = no_token(one.invalid, kv, random);
        } else {
          row[i] = selector.draw(t, i);
          if (written[static_cast<size_t>(row[i])]) continue;
          written[static_cast<size_t>(row[i])] = true;
          write_record(one, kv, pool, row[i], random);
        }
      }
    }
  }
  kv.indices = memory.indices.data();
  if (one.lengths) kv.topk_length = memory.topk_length.data();
  return kv;
}

}  // namespace flashmla::gate
