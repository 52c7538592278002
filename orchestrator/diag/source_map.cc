#include "orchestrator/diag/source_map.h"

#include <utility>

namespace sweep::diag {

void SourceMap::add(std::string name, std::string text) {
  texts_.insert_or_assign(std::move(name), std::move(text));
}

void SourceMap::add_all(const SourceMap& other) {
  for (const auto& [name, text] : other.texts_) texts_.insert_or_assign(name, text);
}

std::optional<std::string_view> SourceMap::line(std::string_view name, uint32_t number) const {
  const auto found = texts_.find(name);
  if (found == texts_.end() || number == 0) return std::nullopt;
  std::string_view rest = found->second;
  for (uint32_t i = 1; i < number; ++i) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(end + 1);
  }
  std::string_view line = rest.substr(0, rest.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace sweep::diag
