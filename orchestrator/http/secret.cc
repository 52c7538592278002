#include "orchestrator/http/secret.h"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/request.h"

namespace sweep::http {

namespace {
constexpr std::string_view kInItsPlace = "(secret)";
constexpr std::string_view kCut = "...";
constexpr size_t kShortestPart = 4;  // shorter ones are words that happen to begin like the key
}  // namespace

diag::Result<diag::Done> check_key(std::string_view key, std::string_view source) {
  const auto refuse = [&](std::string_view reason) {
    return diag::fail(diag::rule::http_bad_key, fmt::format("{} {}", source, reason),
                      "set it to the key alone, without quotes and line breaks");
  };
  if (key.empty()) return refuse("is not set, or empty");
  const bool usable =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '\\'; });
  if (!usable)
    return refuse("holds a character that no key has: blanks, quotes, backslashes, control or non-ASCII ones");
  return diag::Done{};
}

std::vector<Header> credentials(const Access& access) {
  if (access.bearer_token.empty()) return {};
  return {{"Authorization", "Bearer " + access.bearer_token}};
}

std::string without_secret(std::string text, std::string_view key) {
  if (key.empty()) return text;
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + kInItsPlace.size()))
    text.replace(at, key.size(), kInItsPlace);
  const size_t end = text.size() - (text.ends_with(kCut) ? kCut.size() : 0);
  for (size_t length = std::min(key.size() - 1, end); length >= kShortestPart; --length) {
    if (text.compare(end - length, length, key, 0, length) != 0) continue;
    text.replace(end - length, length, kInItsPlace);
    break;
  }
  return text;
}

}  // namespace sweep::http
