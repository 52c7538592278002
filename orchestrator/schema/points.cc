#include "orchestrator/schema/points.h"

#include <fmt/format.h>

#include <limits>

namespace sweep::schema {

namespace {

const yaml::Node* source_of(const yaml::Node* scenarios, std::string_view kind, size_t block, size_t point) {
  const yaml::Node* blocks = scenarios == nullptr ? nullptr : scenarios->find(kind);
  if (blocks == nullptr || block >= blocks->items.size()) return nullptr;
  const yaml::Node* space = blocks->items[block].find("search-space");
  return space == nullptr || point >= space->items.size() ? nullptr : &space->items[point];
}

}  // namespace

std::vector<PointView> points_of(const MatrixEntry& entry) {
  std::vector<PointView> views;
  if (!entry.scenarios) return views;
  const yaml::Node* scenarios = entry.source == nullptr ? nullptr : entry.source->find("scenarios");
  const auto add_block = [&](const auto& block, std::string_view kind, size_t index, auto assign) {
    const std::string block_path = fmt::format("{}.scenarios.{}[{}]", entry.key, kind, index);
    for (size_t i = 0; i < block.search_space.size(); ++i) {
      PointView& view = views.emplace_back();
      view.entry = &entry;
      view.point = &block.search_space[i];
      view.path = fmt::format("{}.search-space[{}]", block_path, i);
      view.block_path = block_path;
      view.source = source_of(scenarios, kind, index, i);
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
