#include "kernels/bench/device_memory.h"

#include <cmath>
#include <cstring>

#include "flashmla/records.h"
#include "kernels/api/layout.h"

namespace flashmla::bench {

using device::Buffer;
using device::Device;
using device::Result;
using device::Status;

namespace {

constexpr int32_t kBlockPages = 61;  // so that the pages of two sets do not coincide

void write_page(CacheKind kind, uint8_t* page, Random& random) {
  float values[kDenseDimsLong];
  for (int32_t offset = 0; offset < kPageSize; ++offset) {
    for (float& value : values) value = random.normal();
    switch (kind) {
      case CacheKind::kV4:
        flashmla_v4_write(page, kPageSize, offset, values, values + 448);
        break;
      case CacheKind::kV32:
        flashmla_v32_write(page, kPageSize, offset, values, values + 512);
        break;
      case CacheKind::kV41:
        flashmla_v41_write(page, kPageSize, offset, values);
        break;
      case CacheKind::kV41Fp4:
        flashmla_v41_fp4_write(page, kPageSize, offset, values);
        break;
      case CacheKind::kDense:
        flashmla_write_bf16(values, kDenseDimsLong, page + int64_t{offset} * info(kind).data_bytes);
        break;
    }
  }
}

std::vector<uint8_t> random_block(CacheKind kind) {
  Random random(11);
  std::vector<uint8_t> block(static_cast<size_t>(kBlockPages * info(kind).page_stride));
  for (int32_t page = 0; page < kBlockPages; ++page) {
    write_page(kind, block.data() + page * info(kind).page_stride, random);
  }
  return block;
}

template <typename T>
Status upload(const Device& device, const std::vector<T>& values, Buffer& buffer) {
  auto made = device.allocate(values.size() * sizeof(T));
  if (!made) return made.status();
  buffer = std::move(*made);
  return buffer.copy_from(values.data());
}

size_t query_heads(const DeviceShape& shape) {
  return static_cast<size_t>(shape.rows()) * static_cast<size_t>(shape.num_heads);
}

// Random queries; long ones repeat a shorter row of numbers.
std::vector<uint16_t> random_queries(size_t count, Random& random) {
  std::vector<uint16_t> values(count);
  constexpr size_t kDistinct = (1 << 18) - 1;
  for (size_t i = 0; i < count; ++i) {
    values[i] = i < kDistinct ? flashmla_to_bf16(random.normal()) : values[i - kDistinct];
  }
  return values;
}

ReadCache read_cache(const uint8_t* pool, const Buffer& slots) {
  return {.pool = pool,
          .slots = slots.as<const int32_t>(),
          .count = static_cast<uint32_t>(slots.bytes() / sizeof(int32_t))};
}

ReadLayout read_layout(const CacheKindInfo& kind) {
  ReadLayout layout = {.page_stride = static_cast<uint64_t>(kind.page_stride),
                       .page_shift = 6,
                       .data_bytes = static_cast<uint32_t>(kind.data_bytes),
                       .scale_bytes = static_cast<uint32_t>(kind.scale_bytes),
                       .data_pieces = 0,
                       .scale_pieces = static_cast<uint32_t>(kind.scale_bytes + 15) / 16};
  static_assert(kPageSize == 1 << 6);
  if (kind.kind == CacheKind::kDense) {  // a row is a whole page
    layout.page_shift = 0;
    layout.data_bytes = static_cast<uint32_t>(kind.page_stride);
  }
  layout.data_pieces = layout.data_bytes / 16;
  return layout;
}

// As piece_address() in plain_read.cu, with the pool at `base`.
uint32_t fold_cache(const KvPool& pool, const ReadLayout& layout, const std::vector<int32_t>& slots, int64_t base) {
  uint32_t folded = 0;
  const int64_t page_size = int64_t{1} << layout.page_shift;
  for (const int32_t slot : slots) {
    const int64_t page = base + slot / page_size * static_cast<int64_t>(layout.page_stride);
    const int64_t data = page + slot % page_size * layout.data_bytes;
    const int64_t scales = page + page_size * layout.data_bytes + slot % page_size * layout.scale_bytes / 16 * 16;
    for (int64_t i = 0; i < layout.data_pieces; ++i) folded ^= pool.fold(data + 16 * i);
    for (int64_t i = 0; i < layout.scale_pieces; ++i) folded ^= pool.fold(scales + 16 * i);
  }
  return folded;
}

}  // namespace

Status KvPool::ensure(const Device& device, const ReadKernels& kernels, const device::Stream& stream, CacheKind kind,
                      int64_t bytes) {
  const auto wanted = static_cast<size_t>(bytes);
  if (kind == kind_ && !block_.empty() && memory_.bytes() >= wanted) return {};
  if (kind != kind_ || block_.empty()) block_ = random_block(kind);
  kind_ = kind;
  memory_ = Buffer();
  auto block = device.allocate(block_.size());
  if (!block) return block.status();
  if (Status copied = block->copy_from(block_.data()); !copied) return copied;
  // Some more than wanted: a slightly longer shape will follow. Whole pages of every kind are multiples of 16 bytes.
  auto memory = device.allocate((wanted + wanted / 4 + 255) / 256 * 256);
  if (!memory) return memory.status();
  memory_ = std::move(*memory);
  const Status filled = kernels.repeat(*block, memory_, stream);
  return filled ? stream.synchronize() : filled;
}

uint32_t KvPool::fold(int64_t offset) const {
  uint32_t words[4];
  std::memcpy(words, block_.data() + static_cast<size_t>(offset) % block_.size(), sizeof words);
  return words[0] ^ words[1] ^ words[2] ^ words[3];
}

Result<CallMemory> CallMemory::make(const Device& device, const DeviceShape& shape, Random& random) {
  CallMemory memory;
  memory.shape_ = shape;
  memory.selection_ = select_tokens(shape, random);
  const auto d_qk = static_cast<size_t>(info(shape.kind).d_qk);
  Status status = upload(device, random_queries(query_heads(shape) * d_qk, random), memory.q_);
  const auto allocate = [&](size_t bytes, Buffer& buffer) {
    if (!status) return;
    auto made = device.allocate(bytes);
    status = made.status();
    if (made) buffer = std::move(*made);
  };
  allocate(query_heads(shape) * kValueDims * sizeof(uint16_t), memory.out_);
  allocate(query_heads(shape) * sizeof(float), memory.lse_);
  const auto put = [&](const auto& values, Buffer& buffer) {
    if (status) status = upload(device, values, buffer);
  };
  const auto lengths = [&](int32_t length) { return std::vector<int32_t>(static_cast<size_t>(shape.batch), length); };
  put(memory.selection_.main.slots, memory.main_slots_);
  if (shape.dense()) {
    put(lengths(shape.seq_len), memory.main_lengths_);
  } else if (shape.kind != CacheKind::kV32) {
    std::vector<float> sink(static_cast<size_t>(shape.num_heads));
    for (float& value : sink) value = random.normal();
    put(sink, memory.sink_);
    put(lengths(shape.main_topk), memory.main_lengths_);
    put(memory.selection_.extra.slots, memory.extra_slots_);
    put(lengths(shape.extra_topk), memory.extra_lengths_);
  }
  if (!status) return status;
  return memory;
}

int64_t CallMemory::set_bytes() const {
  return selection_.pages() * info(shape_.kind).page_stride;
}

int64_t CallMemory::set_offset(int64_t set, bool extra) const {
  return set * set_bytes() + (extra ? selection_.main.pages * info(shape_.kind).page_stride : 0);
}

flashmla_sparse_kv CallMemory::cache(const KvPool& pool, int64_t set, bool extra) const {
  const Buffer& lengths = extra ? extra_lengths_ : main_lengths_;
  const CacheSelection& selection = extra ? selection_.extra : selection_.main;
  flashmla_sparse_kv kv{};
  kv.pool = pool.at(set_offset(set, extra));
  kv.num_pages = selection.pages;
  kv.page_stride_bytes = info(shape_.kind).page_stride;
  kv.page_size = kPageSize;
  kv.format = info(shape_.kind).format;
  kv.topk = extra ? shape_.extra_topk : shape_.main_topk;
  kv.indices = (extra ? extra_slots_ : main_slots_).as<const int32_t>();
  kv.indices_query_stride = kv.topk;
  kv.indices_batch_stride = int64_t{kv.topk} * shape_.s_q;
  kv.topk_length = lengths.bytes() > 0 ? lengths.as<const int32_t>() : nullptr;
  return kv;
}

template <typename Params>
Params CallMemory::common() const {
  const int64_t heads = shape_.num_heads;
  Params params{};
  params.batch = shape_.batch;
  params.s_q = shape_.s_q;
  params.num_heads = shape_.num_heads;
  params.d_qk = info(shape_.kind).d_qk;
  params.d_v = kValueDims;
  params.q = q_.as<const uint16_t>();
  params.q_head_stride = params.d_qk;
  params.q_token_stride = params.d_qk * heads;
  params.q_batch_stride = params.q_token_stride * shape_.s_q;
  params.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(params.d_qk)));
  params.out = out_.as<uint16_t>();
  params.out_head_stride = kValueDims;
  params.out_token_stride = kValueDims * heads;
  params.out_batch_stride = params.out_token_stride * shape_.s_q;
  params.lse = lse_.as<float>();
  params.lse_head_stride = 1;
  params.lse_token_stride = heads;
  params.lse_batch_stride = heads * shape_.s_q;
  return params;
}

flashmla_sparse_decode_params CallMemory::sparse(const KvPool& pool, int64_t set) const {
  auto params = common<flashmla_sparse_decode_params>();
  params.main = cache(pool, set, false);
  if (shape_.extra_topk > 0) params.extra = cache(pool, set, true);
  params.attn_sink = sink_.bytes() > 0 ? sink_.as<const float>() : nullptr;
  return params;
}

flashmla_dense_decode_params CallMemory::dense(const KvPool& pool, int64_t set) const {
  auto params = common<flashmla_dense_decode_params>();
  params.kv = reinterpret_cast<const uint16_t*>(pool.at(set_offset(set, false)));
  params.num_pages = selection_.main.pages;
  params.kv_token_stride = params.d_qk;
  params.kv_page_stride = int64_t{params.d_qk} * kPageSize;
  params.page_size = kPageSize;
  params.block_table = main_slots_.as<const int32_t>();
  params.max_pages = static_cast<int32_t>(selection_.main.pages / shape_.batch);
  params.block_table_stride = params.max_pages;
  params.seq_lens = main_lengths_.as<const int32_t>();
  params.causal = shape_.s_q > 1 ? 1 : 0;
  return params;
}

ReadArguments CallMemory::read(const KvPool& pool, int64_t set) const {
  ReadArguments arguments{};
  arguments.main = read_cache(pool.at(set_offset(set, false)), main_slots_);
  arguments.extra = read_cache(pool.at(set_offset(set, true)), extra_slots_);
  arguments.layout = read_layout(info(shape_.kind));
  return arguments;
}

uint32_t CallMemory::expected_fold(const KvPool& pool, int64_t set) const {
  const ReadLayout layout = read_layout(info(shape_.kind));
  return fold_cache(pool, layout, selection_.main.slots, set_offset(set, false)) ^
         fold_cache(pool, layout, selection_.extra.slots, set_offset(set, true));
}

Status CallMemory::poison_results() {
  const Status status = out_.fill(0xff);  // NaN
  return status ? lse_.fill(0xff) : status;
}

Status CallMemory::check_results() const {
  std::vector<uint16_t> out(out_.bytes() / sizeof(uint16_t));
  std::vector<float> lse(lse_.bytes() / sizeof(float));
  if (Status copied = out_.copy_to(out.data()); !copied) return copied;
  if (Status copied = lse_.copy_to(lse.data()); !copied) return copied;
  constexpr uint16_t kExponent = 0x7f80;
  for (size_t i = 0; i < out.size(); ++i) {
    if ((out[i] & kExponent) != kExponent) continue;
    return Status::failure("output " + std::to_string(i) + " of " + std::to_string(out.size()) +
                           " was not written, or is not finite");
  }
  for (size_t i = 0; i < lse.size(); ++i) {
    if (std::isfinite(lse[i])) continue;
    return Status::failure("LSE " + std::to_string(i) + " of " + std::to_string(lse.size()) +
                           " was not written, or is not finite");
  }
  return {};
}

}  // namespace flashmla::bench
