// The located tree that everything above YAML works on: no type of the YAML library leaves this module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sweep::yaml {

// Bytes [begin, end) of a document's text.
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
};

enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap };

// "a list", "a mapping", "text", "nothing"
std::string_view kind_name(Kind kind);

struct Entry;

// One value. Scalars keep their text as written; what type it is, is decided by whoever knows what is expected
// (scalar.h).
struct Node {
  Kind kind = Kind::kNull;
  bool quoted = false;  // a scalar in quotes or block style: always text
  Range where;          // the value; for an empty value the place right behind its key
  std::string text;
  std::vector<Node> items;     // of a sequence
  std::vector<Entry> entries;  // of a mapping, in file order, keys unique; entries merged by `<<` come first

  // The value of a key of this mapping, or null.
  const Node* find(std::string_view key) const;
  const Entry* find_entry(std::string_view key) const;

  bool is_map() const { return kind == Kind::kMap; }
  bool is_sequence() const { return kind == Kind::kSequence; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_null() const { return kind == Kind::kNull; }
};

struct Entry {
  std::string key;
  Range key_where;
  bool merged = false;  // came in by `<<`
  Node value;
};

}  // namespace sweep::yaml
