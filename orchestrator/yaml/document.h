// A parsed file: its name, its text and its tree. Turns byte ranges into lines and columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/yaml/node.h"

namespace sweep::yaml {

class Document {
 public:
  // `name` is what diagnostics show.
  Document(std::string name, std::string text);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }

  const Node& root() const { return root_; }
  void set_root(Node root) { root_ = std::move(root); }

  // A range that spans lines ends at the end of its first line, since marks are drawn on one line.
  diag::SourceSpan span(Range range) const;

  // Line of a byte offset, from 1.
  uint32_t line_of(uint32_t offset) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<uint32_t> line_starts_;
  Node root_;
};

}  // namespace sweep::yaml
