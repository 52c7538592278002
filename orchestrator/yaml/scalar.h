// Scalars by strict rules. What YAML 1.1 and 1.2 readers understand differently (`yes`, `010`, `1e3`, `1.10` for a
// version) is refused, with the spelling that everyone reads alike.
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/base/expected.h"
#include "orchestrator/yaml/node.h"

namespace sweep::yaml {

struct ScalarProblem {
  std::string expected;  // "an integer"
  std::string found;     // "text \"010\""
  std::string help;      // what to write
};

template <class T>
using Decoded = base::Expected<T, ScalarProblem>;

// `0`, or digits without a leading zero, with an optional sign; groups of three may be separated by `_`
// (`2_063_920`). Within int64.
Decoded<int64_t> decode_integer(const Node& node);

// An integer, or digits with a decimal point (`5.7`). No exponent, no infinity.
Decoded<double> decode_number(const Node& node);

// `true` or `false`.
Decoded<bool> decode_boolean(const Node& node);

// Quoted text, or unquoted text that no reader takes for something else.
Decoded<std::string> decode_text(const Node& node);

// What an unquoted scalar would be taken for by some reader ("a number", "a boolean", "a date"); empty for text.
std::string_view mistaken_for(std::string_view text);

// `text "x"`, `a list`: for messages.
std::string describe(const Node& node);

}  // namespace sweep::yaml
