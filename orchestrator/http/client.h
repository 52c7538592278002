// One request, one complete reply. Any status is a reply: only a failed transfer is an error. Nothing is retried.
#pragma once

#include <stop_token>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/request.h"

namespace sweep::http {

// Blocks until the reply is complete, a timeout passes, or `stop` is requested.
diag::Result<Response> send(Method method, Request request, const std::stop_token& stop = {});

inline diag::Result<Response> get(Request request, const std::stop_token& stop = {}) {
  return send(Method::kGet, std::move(request), stop);
}
inline diag::Result<Response> head(Request request, const std::stop_token& stop = {}) {
  return send(Method::kHead, std::move(request), stop);
}
inline diag::Result<Response> post(Request request, const std::stop_token& stop = {}) {
  return send(Method::kPost, std::move(request), stop);
}

}  // namespace sweep::http
