// Text from outside (file names, replies of servers) on its way into formats that must be UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace sweep::base {

// Whether the bytes are UTF-8 (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).
bool is_utf8(std::string_view bytes);

// The same text with each byte that belongs to no character replaced by U+FFFD.
std::string valid_utf8(std::string_view bytes);

}  // namespace sweep::base
