// What servers for tests send and count.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace sweep::test {

inline constexpr int64_t kFirstTokenId = 1000;

// A server-sent event.
std::string event(const nlohmann::json& body);

// Words between blanks: a token each.
int64_t words_in(const std::string& text);

}  // namespace sweep::test
