#include "orchestrator/engine/embedded/row_layout.h"

namespace sweep::engine::embedded {

RowLayout RowLayout::of(std::span<const Segment> segments, int32_t query_tokens) {
  RowLayout layout;
  for (size_t s = 0; s < segments.size(); ++s) {
    layout.segment_begin.push_back(static_cast<int64_t>(layout.rows.size()));
    for (size_t i = 0; i < segments[s].tokens.size(); ++i) {
      layout.rows.push_back({static_cast<int32_t>(s), segments[s].start + static_cast<int64_t>(i)});
    }
    while (layout.rows.size() % static_cast<size_t>(query_tokens) != 0) layout.rows.emplace_back();
  }
  return layout;
}

}  // namespace sweep::engine::embedded
