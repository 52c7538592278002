#include "orchestrator/yaml/node.h"

namespace sweep::yaml {

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kScalar:
      return "text";
    case Kind::kSequence:
      return "a list";
    case Kind::kMap:
      return "a mapping";
  }
  return "nothing";
}

const Entry* Node::find_entry(std::string_view key) const {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

const Node* Node::find(std::string_view key) const {
  const Entry* entry = find_entry(key);
  return entry == nullptr ? nullptr : &entry->value;
}

}  // namespace sweep::yaml
