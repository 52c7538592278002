#include "kernels/bench/device_shapes.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace flashmla::bench {
namespace {

constexpr std::array<CacheKindInfo, 5> kKinds = {{
    {CacheKind::kV4, "v4", FLASHMLA_KV_V4_584, 512, 576, 8, 37440},
    {CacheKind::kV32, "v32", FLASHMLA_KV_V32_656, 576, 656, 0, int64_t{656} * kPageSize},
    {CacheKind::kV41, "v41", FLASHMLA_KV_V41_528, 512, 512, 16, int64_t{528} * kPageSize},
    {CacheKind::kV41Fp4, "v41fp4", FLASHMLA_KV_V41_FP4_288, 512, 256, 32, int64_t{288} * kPageSize},
    {CacheKind::kDense, "dense", FLASHMLA_KV_V4_584, 576, 1152, 0, int64_t{1152} * kPageSize},
}};

// One table of flashmla.md, or a part of it with its own head counts.
struct Table {
  char section;
  CacheKind kind;
  int32_t main_topk;
  int32_t extra_topk;
  int32_t seq_len;
  std::vector<int32_t> heads, s_q, batches, quick_batches;
};

std::vector<Table> tables() {
  std::vector<Table> list;
  const std::vector<int32_t> batches = {1, 2, 4, 8, 16, 32, 64, 96, 128};
  const std::vector<int32_t> wide = {1, 2, 4, 8, 16, 27, 28, 32, 64, 104, 128};
  const std::vector<int32_t> few = {1, 4, 8, 16, 32, 64, 128};
  list.push_back({'A', CacheKind::kV4, 128, 512, 0, {8}, {1, 2, 4, 8}, batches, {1, 16, 128}});
  list.push_back({'A', CacheKind::kV4, 128, 1024, 0, {16}, {1, 2, 4, 8}, batches, {1, 128}});
  list.push_back({'B', CacheKind::kV32, 2048, 0, 0, {8}, {1, 4}, wide, {1, 32}});
  list.push_back({'B', CacheKind::kV32, 2048, 0, 0, {128}, {1}, {1, 8, 32, 128}, {128}});
  for (const int32_t extra : {0, 64, 256}) {
    list.push_back({'F', CacheKind::kV4, 128, extra, 0, {8}, {1, 4}, few, {1, 128}});
  }
  for (const int32_t seq_len : {1024, 8192, 32768}) {
    list.push_back({'C', CacheKind::kDense, 0, 0, seq_len, {16}, {1, 2}, {1, 8, 32, 128}, {1, 128}});
  }
  for (const CacheKind kind : {CacheKind::kV41, CacheKind::kV41Fp4}) {
    list.push_back({'N', kind, 128, 512, 0, {8}, {1, 8}, {1, 8, 64, 128}, {1, 128}});
  }
  return list;
}

bool is_primary(const DeviceShape& shape) {
  return shape.kind == CacheKind::kV4 && shape.num_heads == 8 && shape.s_q == 8 && shape.batch == 1 &&
         shape.main_topk == 128 && shape.extra_topk == 512;
}

void append(const Table& table, const ShapeFilter& filter, std::vector<DeviceShape>& shapes) {
  for (const int32_t heads : filter.heads.empty() ? table.heads : filter.heads) {
    for (const int32_t s_q : table.s_q) {
      // A long and a short step are enough to see whether all is well.
      if (filter.quick && s_q != table.s_q.front() && s_q != table.s_q.back()) continue;
      for (const int32_t batch : filter.quick ? table.quick_batches : table.batches) {
        const DeviceShape shape = {.section = table.section,
                                   .kind = table.kind,
                                   .num_heads = heads,
                                   .s_q = s_q,
                                   .batch = batch,
                                   .main_topk = table.main_topk,
                                   .extra_topk = table.extra_topk,
                                   .seq_len = table.seq_len};
        shapes.push_back(shape);
      }
    }
  }
}

// A head count of its own for few batches adds nothing when the caller names the heads.
bool is_covered(const Table& table, const ShapeFilter& filter) {
  return !filter.heads.empty() && table.section == 'B' && table.heads.front() == 128;
}

// The heads that a name says ("../h16/.."), though its section does not have them by default.
std::vector<int32_t> heads_of_name(const std::string& part) {
  const size_t place = part.find("/h");
  if (place == std::string::npos) return {};
  const int heads = std::atoi(part.c_str() + place + 2);
  return heads > 0 ? std::vector<int32_t>{heads} : std::vector<int32_t>{};
}

// A whole name means that shape alone, though it begins the names of others.
void keep_named(const std::string& part, std::vector<DeviceShape>& shapes) {
  const bool whole =
      std::any_of(shapes.begin(), shapes.end(), [&](const DeviceShape& shape) { return shape.name() == part; });
  const auto unwanted = [&](const DeviceShape& shape) {
    return whole ? shape.name() != part : shape.name().find(part) == std::string::npos;
  };
  shapes.erase(std::remove_if(shapes.begin(), shapes.end(), unwanted), shapes.end());
}

}  // namespace

const CacheKindInfo& info(CacheKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::string DeviceShape::name() const {
  std::string name = info(kind).name;
  name += "-" + std::to_string(dense() ? seq_len : main_topk);
  if (extra_topk > 0) name += "+" + std::to_string(extra_topk);
  return name + "/h" + std::to_string(num_heads) + "/sq" + std::to_string(s_q) + "/b" + std::to_string(batch);
}

std::vector<DeviceShape> device_shapes(const ShapeFilter& wanted) {
  ShapeFilter filter = wanted;
  if (filter.heads.empty()) filter.heads = heads_of_name(filter.part_of_name);
  const std::string sections = filter.sections.empty() ? "ABFC" : filter.sections;
  std::vector<DeviceShape> shapes;
  for (const Table& table : tables()) {
    if (sections.find(table.section) == std::string::npos || is_covered(table, filter)) continue;
    append(table, filter, shapes);
  }
  keep_named(filter.part_of_name, shapes);
  const auto primary = std::find_if(shapes.begin(), shapes.end(), is_primary);
  if (primary != shapes.end()) std::rotate(shapes.begin(), primary, primary + 1);
  return shapes;
}

DeviceShape transition_shape(int32_t query_rows, int32_t num_heads) {
  const int32_t s_q = std::min(query_rows, 8);
  return {.num_heads = num_heads, .s_q = s_q, .batch = query_rows / s_q, .main_topk = 128, .extra_topk = 512};
}

std::vector<int32_t> transition_rows() {
  std::vector<int32_t> rows;
  for (int32_t count = 1; count <= 1024; count *= 2) rows.push_back(count);
  return rows;
}

}  // namespace flashmla::bench
