#include "orchestrator/base/hex.h"

#include <algorithm>

namespace sweep::base {

bool is_lower_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace sweep::base
