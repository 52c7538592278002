// When to ask a hub again, and how long to wait before.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>

#include "orchestrator/base/rng.h"
#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/request.h"

namespace sweep::hub {

// Time as it passes for a client; tests have one that passes at once.
struct Waiting {
  // False if the stop was requested before the time was over.
  std::function<bool(std::chrono::milliseconds, const std::stop_token&)> wait;
  std::function<int64_t()> unix_ns;
};
Waiting real_waiting();

struct RetryPolicy {
  int tries = 5;
  std::chrono::milliseconds first_wait{1'000};  // doubled with every try
  std::chrono::milliseconds longest_wait{8'000};
  std::chrono::milliseconds longest_asked{600'000};  // what a server may ask for; beyond it, the user decides
  uint64_t seed = 0;                                 // of the jitter, which keeps hosts from asking in step
};

// Statuses that mean trouble which passes (huggingface_hub, utils/_http.py): 408, 429, 500, 502, 503, 504.
bool passes(int status);

// Failed transfers that may succeed the next time: no connection, a cut reply, a stalled one. The limit for the whole
// request is the user's: it is not tried again.
bool passes(const diag::Diagnostic& failure);

// What the server asks for: Retry-After (seconds or a date; 429 and 503), else `RateLimit: "api";r=0;t=SECONDS` (429;
// docs/hub/rate-limits). Nothing if it does not say.
std::optional<std::chrono::seconds> asked_wait(const http::ReplyHead& reply, int64_t unix_ns);

// The wait after the failed try number `tries` (from 1): doubled each time, by a quarter more or less.
std::chrono::milliseconds backoff(const RetryPolicy& policy, int tries, base::SplitMix64& random);

}  // namespace sweep::hub
