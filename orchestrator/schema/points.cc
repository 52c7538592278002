#include "orchestrator/schema/points.h"

#include <limits>
#include <string>
#include <string_view>

namespace sweep::schema {

namespace {

// The search space of a block as written.
const yaml::Node* search_space_of(const MatrixEntry& entry, std::string_view kind, size_t block) {
  const yaml::Node* scenarios = entry.source == nullptr ? nullptr : entry.source->find("scenarios");
  const yaml::Node* blocks = scenarios == nullptr ? nullptr : scenarios->find(kind);
  if (blocks == nullptr || block >= blocks->items.size()) return nullptr;
  return blocks->items[block].find("search-space");
}

std::string indexed(std::string_view path, std::string_view name, size_t index) {
  const std::string digits = std::to_string(index);
  std::string result;
  result.reserve(path.size() + name.size() + digits.size() + 2);
  return result.append(path).append(name).append(1, '[').append(digits).append(1, ']');
}

}  // namespace

std::vector<PointView> points_of(const MatrixEntry& entry) {
  std::vector<PointView> views;
  if (!entry.scenarios) return views;
  const auto add_block = [&](const auto& block, std::string_view kind, size_t index, auto assign) {
    const std::string block_path = indexed(entry.key + ".scenarios.", kind, index);
    const yaml::Node* written = search_space_of(entry, kind, index);
    for (size_t i = 0; i < block.search_space.size(); ++i) {
      PointView& view = views.emplace_back();
      view.entry = &entry;
      view.point = &block.search_space[i];
      view.path = indexed(block_path, ".search-space", i);
      view.block_path = block_path;
      if (written != nullptr && i < written->items.size()) view.source = &written->items[i];
      assign(view);
    }
  };
  for (size_t i = 0; i < entry.scenarios->fixed_seq_len.size(); ++i) {
    const FixedSeqLen& block = entry.scenarios->fixed_seq_len[i];
    add_block(block, "fixed-seq-len", i, [&](PointView& view) { view.fixed = &block; });
  }
  for (size_t i = 0; i < entry.scenarios->agentic_coding.size(); ++i) {
    const AgenticCoding& block = entry.scenarios->agentic_coding[i];
    add_block(block, "agentic-coding", i, [&](PointView& view) { view.agentic = &block; });
  }
  return views;
}

std::vector<int64_t> concurrencies_of(const Point& point, int64_t step) {
  std::vector<int64_t> values;
  if (point.has_conc_list()) {
    for (const Integer& value : *point.conc_list)
      if (value) values.push_back(*value);
    return values;
  }
  if (!point.conc_start || !point.conc_end || *point.conc_start < 1 || step < 2) return values;
  for (int64_t value = *point.conc_start; value < *point.conc_end; value *= step) {
    values.push_back(value);
    if (value > std::numeric_limits<int64_t>::max() / step) return values;
  }
  if (*point.conc_start <= *point.conc_end) values.push_back(*point.conc_end);
  return values;
}

}  // namespace sweep::schema
