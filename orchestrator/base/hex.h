// Hexadecimal digits as digests and commits are written: lower case only.
#pragma once

#include <cstddef>
#include <string_view>

namespace sweep::base {

inline constexpr size_t kSha256Digits = 64;
inline constexpr size_t kGitBlobDigits = 40;  // of git's name for a content, a SHA-1

// Whether there is no other character; true for no text.
bool is_lower_hex(std::string_view text);

inline bool is_lower_hex(std::string_view text, size_t digits) {
  return text.size() == digits && is_lower_hex(text);
}

}  // namespace sweep::base
