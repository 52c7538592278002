// Requests to one hub: with the token where it may go, again after trouble that passes, refusals explained.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "orchestrator/base/rng.h"
#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/redirects.h"
#include "orchestrator/hub/model_id.h"
#include "orchestrator/hub/retry.h"
#include "orchestrator/hub/settings.h"

namespace sweep::hub {

// A try that failed and will be repeated.
struct Retry {
  std::string reason;
  std::chrono::milliseconds wait{0};
  int next_try = 0;  // from 2
  int tries = 0;     // at most
};

struct ConnectionOptions {
  Settings settings = {};
  RetryPolicy policy = {};
  Waiting waiting = real_waiting();
  std::function<void(const Retry&)> on_retry = {};
  std::stop_token stop = {};
};

// One request, and what messages call its subject.
struct Call {
  http::Method method = http::Method::kGet;
  std::string url;
  std::string form = {};                    // body of a POST
  uint64_t max_bytes = uint64_t{64} << 20;  // of the reply
  http::Redirects redirects = http::Redirects::kSameOrigin;
  ModelRevision about = {};
  std::string file = {};  // that is asked for, if it is one
};

class Connection {
 public:
  explicit Connection(ConnectionOptions options);

  const std::string& endpoint() const { return options_.settings.endpoint; }
  const std::string& name() const { return name_; }  // for messages

  // A reply with a status below 400. Everything else is a diagnostic: http/... of a failed transfer, hub/... of a
  // refusal.
  diag::Result<http::Answer> send(const Call& call);

  // Text of a server for a message: one line, not too long, and without the token, whoever repeats it.
  std::string quoted(std::string_view text) const;

 private:
  http::Request request_for(const Call& call) const;
  void advise(const Call& call, diag::Diagnostic& failure) const;
  // What is wrong with a try, if another one would not help.
  std::optional<diag::Diagnostic> final_problem(const Call& call, const diag::Result<http::Answer>& answer,
                                                int tries) const;
  diag::Diagnostic refusal(const Call& call, const http::Answer& answer) const;
  diag::Diagnostic trouble(const http::Answer& answer, int tries) const;
  diag::Diagnostic asks_too_much(const http::Answer& answer, std::chrono::seconds wait) const;
  std::string who_answered(const http::Answer& answer) const;
  std::string said_by(const http::Response& reply) const;

  ConnectionOptions options_;
  std::string name_;
  base::SplitMix64 random_;
};

}  // namespace sweep::hub
