#include "orchestrator/yaml/document.h"

#include <algorithm>
#include <utility>

namespace sweep::yaml {

Document::Document(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  line_starts_.push_back(0);
  for (size_t at = text_.find('\n'); at != std::string::npos; at = text_.find('\n', at + 1))
    line_starts_.push_back(static_cast<uint32_t>(at + 1));
}

uint32_t Document::line_of(uint32_t offset) const {
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  return static_cast<uint32_t>(after - line_starts_.begin());
}

diag::SourceSpan Document::span(Range range) const {
  const uint32_t line = line_of(range.begin);
  const uint32_t start = line_starts_[line - 1];
  const uint32_t next = line < line_starts_.size() ? line_starts_[line] - 1 : static_cast<uint32_t>(text_.size());
  const uint32_t end = std::max(std::min(range.end, next), range.begin);
  return {name_, line, range.begin - start + 1, end - start + 1};
}

}  // namespace sweep::yaml
