// Dates in headers (RFC 9110, section 5.6.7), such as "Sun, 06 Nov 1994 08:49:37 GMT" and the two older forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sweep::http {

// Seconds since the epoch; nothing if it is no date.
std::optional<int64_t> parse_date(const std::string& text);

}  // namespace sweep::http
