#include "orchestrator/hub/retry.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "orchestrator/diag/rules/http.h"
#include "tests/support/catch.h"

namespace sweep::hub {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kNow = 784111777;  // Sun, 06 Nov 1994 08:49:37 GMT

std::optional<seconds> asked(int status, std::vector<http::Header> headers) {
  return asked_wait({.status = status, .headers = std::move(headers)}, kNow * 1'000'000'000);
}

}  // namespace

TEST_CASE("retry: trouble that passes is tried again, refusals are not") {
  for (const int status : {408, 429, 500, 502, 503, 504}) CHECK(passes(status));
  for (const int status : {200, 302, 400, 401, 403, 404, 407, 410, 501, 505}) CHECK(!passes(status));
  for (const diag::RuleId rule :
       {diag::RuleId(diag::rule::http_connect_failed), diag::RuleId(diag::rule::http_cut),
        diag::RuleId(diag::rule::http_connect_timeout), diag::RuleId(diag::rule::http_idle_timeout),
        diag::RuleId(diag::rule::http_first_byte_timeout)})
    CHECK(passes(diag::make(rule, "")));
  for (const diag::RuleId rule : {diag::RuleId(diag::rule::http_tls), diag::RuleId(diag::rule::http_total_timeout),
                                  diag::RuleId(diag::rule::http_cancelled), diag::RuleId(diag::rule::http_redirect),
                                  diag::RuleId(diag::rule::http_too_large), diag::RuleId(diag::rule::http_proxy)})
    CHECK(!passes(diag::make(rule, "")));
}

TEST_CASE("retry: Retry-After is seconds or a date") {
  CHECK(asked(429, {{"retry-after", "17"}}) == seconds(17));
  CHECK(asked(503, {{"retry-after", "0"}}) == seconds(0));
  CHECK(asked(503, {{"retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"}}) == seconds(30));
  CHECK(asked(503, {{"retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"}}) == seconds(0));
  CHECK(asked(429, {{"retry-after", "99999999999999999999999"}}) > seconds(1'000'000));
  CHECK(!asked(500, {{"retry-after", "17"}}).has_value());
  for (const char* text : {"", "soon", "-1", "1.5", "1 2"}) {
    CAPTURE(text);
    CHECK(!asked(429, {{"retry-after", text}}).has_value());
  }
}

TEST_CASE("retry: the limit that is used up says when it is filled again") {
  CHECK(asked(429, {{"ratelimit", "\"api\";r=0;t=55"}}) == seconds(55));
  CHECK(asked(429, {{"ratelimit", "\"pages\";r=3;t=9, \"api\"; r=0; t=44"}}) == seconds(44));
  CHECK(asked(429, {{"retry-after", "3"}, {"ratelimit", "\"api\";r=0;t=55"}}) == seconds(3));
  CHECK(!asked(429, {{"ratelimit", "\"api\";r=7;t=55"}}).has_value());
  CHECK(!asked(429, {{"ratelimit", "\"api\";r=0"}}).has_value());
  CHECK(!asked(429, {{"ratelimit", ";;=,\";"}}).has_value());
  CHECK(!asked(503, {{"ratelimit", "\"api\";r=0;t=55"}}).has_value());
}

TEST_CASE("retry: waits double up to a limit, and the seed decides by how much they differ") {
  const RetryPolicy policy{.first_wait = milliseconds(1000), .longest_wait = milliseconds(8000)};
  base::SplitMix64 random(7);
  base::SplitMix64 same(7);
  for (int tries = 1; tries <= 64; ++tries) {
    CAPTURE(tries);
    const milliseconds middle = std::min(milliseconds(8000), milliseconds(1000) * (1 << std::min(tries - 1, 4)));
    const milliseconds wait = backoff(policy, tries, random);
    CHECK(wait >= middle * 3 / 4);
    CHECK(wait <= middle * 5 / 4);
    CHECK(wait == backoff(policy, tries, same));
  }
  base::SplitMix64 other(8);
  base::SplitMix64 again(7);
  CHECK(backoff(policy, 1, other) != backoff(policy, 1, again));
}

TEST_CASE("retry: a stop request ends a real wait at once") {
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  CHECK(!real_waiting().wait(std::chrono::hours(1), stop.get_token()));
  CHECK(!real_waiting().wait(std::chrono::hours(1), stop.get_token()));
  CHECK(real_waiting().wait(milliseconds(1), {}));
}

}  // namespace sweep::hub
