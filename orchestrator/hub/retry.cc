#include "orchestrator/hub/retry.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/date.h"
#include "orchestrator/http/request.h"

namespace sweep::hub {

namespace {

constexpr int kUnavailable = 503;
constexpr int64_t kLongestSeconds = int64_t{366} * 24 * 3600;  // keeps sums within range

// A whole number of digits; larger ones are cut to kLongestSeconds.
std::optional<int64_t> parse_seconds(std::string_view text) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc()) return kLongestSeconds;
  return std::min(seconds, kLongestSeconds);
}

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// The parameter `name` of `"api";r=0;t=55`.
std::optional<int64_t> parameter(std::string_view item, std::string_view name) {
  while (!item.empty()) {
    const std::string_view part = without_spaces(item.substr(0, item.find(';')));
    item.remove_prefix(
        std::min(item.size(), item.find(';') == std::string_view::npos ? item.size() : item.find(';') + 1));
    if (part.starts_with(name) && part.substr(name.size()).starts_with('='))
      return parse_seconds(part.substr(name.size() + 1));
  }
  return std::nullopt;
}

// When the exhausted limit is filled again.
std::optional<int64_t> limit_reset(std::string_view header) {
  while (!header.empty()) {
    const size_t comma = header.find(',');
    const std::string_view item = header.substr(0, comma);
    header.remove_prefix(comma == std::string_view::npos ? header.size() : comma + 1);
    if (parameter(item, "r") == 0)
      if (const auto seconds = parameter(item, "t")) return seconds;
  }
  return std::nullopt;
}

}  // namespace

Waiting real_waiting() {
  return {.wait =
              [](std::chrono::milliseconds time, const std::stop_token& stop) {
                std::mutex mutex;
                std::condition_variable_any never;
                std::unique_lock lock(mutex);
                never.wait_for(lock, stop, time, [] { return false; });
                return !stop.stop_requested();
              },
          .unix_ns = base::unix_ns};
}

bool passes(int status) {
  constexpr std::array<int, 6> kPassing{408, http::status::kTooManyRequests, 500, 502, kUnavailable, 504};
  return std::find(kPassing.begin(), kPassing.end(), status) != kPassing.end();
}

bool passes(const diag::Diagnostic& failure) {
  const std::array<diag::RuleId, 5> passing{diag::rule::http_connect_failed, diag::rule::http_connect_timeout,
                                            diag::rule::http_first_byte_timeout, diag::rule::http_idle_timeout,
                                            diag::rule::http_cut};
  return std::find(passing.begin(), passing.end(), failure.rule) != passing.end();
}

std::optional<std::chrono::seconds> asked_wait(const http::ReplyHead& reply, int64_t unix_ns) {
  if (reply.status != http::status::kTooManyRequests && reply.status != kUnavailable) return std::nullopt;
  const std::string_view text = reply.header("retry-after");
  if (const auto seconds = parse_seconds(text)) return std::chrono::seconds(*seconds);
  if (!text.empty())
    if (const auto date = http::parse_date(std::string(text)))
      return std::chrono::seconds(
          std::clamp<int64_t>(*date - unix_ns / base::kNanosecondsPerSecond, 0, kLongestSeconds));
  if (reply.status == http::status::kTooManyRequests)
    if (const auto seconds = limit_reset(reply.header("ratelimit"))) return std::chrono::seconds(*seconds);
  return std::nullopt;
}

std::chrono::milliseconds backoff(const RetryPolicy& policy, int tries, base::SplitMix64& random) {
  std::chrono::milliseconds wait = policy.first_wait;
  for (int i = 1; i < tries && wait < policy.longest_wait; ++i) wait *= 2;
  wait = std::min(wait, policy.longest_wait);
  constexpr double kJitter = 0.25;
  const double factor = 1 - kJitter + 2 * kJitter * random.uniform();
  return std::chrono::milliseconds(static_cast<int64_t>(static_cast<double>(wait.count()) * factor));
}

}  // namespace sweep::hub
