// Requests that go where replies send them. The only place where redirects are followed.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/request.h"

namespace sweep::http {

inline constexpr int kMostRedirects = 5;

enum class Redirects : uint8_t {
  kSameOrigin,  // a reply that leads to another origin is the answer
  kAnywhere,
};

struct Answer {
  Response response;
  std::string url;  // that gave it
};

// Like send(), and follows 301, 302, 303, 307 and 308 (a POST only 307 and 308, which keep its body). The request's
// credentials never reach another origin than that of its URL. Fails with http/redirect after kMostRedirects, and
// rather than going from https to http. The total timeout is for all requests together.
diag::Result<Answer> send_following(Method method, const Request& request, Redirects redirects,
                                    const std::stop_token& stop = {});

}  // namespace sweep::http
