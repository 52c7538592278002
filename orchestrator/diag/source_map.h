// Remembers the text of files that diagnostics point into, so that renderers can show the line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace sweep::diag {

class SourceMap {
 public:
  // `name` is what SourceSpan::file holds.
  void add(std::string name, std::string text);
  void add_all(const SourceMap& other);

  // Line `number` (from 1) without its line break; nothing if the file or line is unknown.
  std::optional<std::string_view> line(std::string_view name, uint32_t number) const;

 private:
  std::map<std::string, std::string, std::less<>> texts_;
};

}  // namespace sweep::diag
