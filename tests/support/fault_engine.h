// An OpenAI-compatible engine that serves no model: it answers completions with made-up tokens and misbehaves as asked.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tests/support/http_server.h"

namespace sweep::test {

enum class Fault : uint8_t {
  kOk,
  kShort,        // one token less than asked for
  kLong,         // one token more
  kPromptShort,  // counts one prompt token less
  kDieMidway,    // dies in the middle of the third completion
  kReset,        // resets every connection midway
  kEarlyClose,   // closes every connection midway
  kHang,         // accepts completions and never answers
  kStall,        // stops sending midway
  kHttp500,
  kHttp429,
  kErrorEvent,  // an error object midway
  kErrorBody,   // status 200 with a JSON error
  kHtml,        // status 200 with an HTML page
  kEmpty,       // a stream without tokens
  kNoDone,      // everything but [DONE]
  kNoUsage,
  kFinalUsageOnly,  // no ids and no continuous usage
  kMiscount,        // usage counts one token more than arrives
  kStopReason,      // right length, finish reason "stop"
  kCached,          // half the prompt comes from a prefix cache
  kDrip,            // one byte at a time
  kAcceptanceOff,   // acceptance length 4.2 whatever was asked
};
std::span<const std::string_view> fault_names();
std::optional<Fault> parse_fault(std::string_view name);

struct FaultEngineOptions {
  Fault fault = Fault::kOk;
  std::string model = "embedded";
  double acceptance_length = 5.7;  // tokens per step, the target's own included
  int num_draft_tokens = 7;
  std::chrono::milliseconds step{0};
  // What dying means; by default the connection is reset and every later one too.
  std::function<void()> die = {};
};

class FaultEngine {
 public:
  explicit FaultEngine(FaultEngineOptions options);

  std::string url() const { return server_.url(); }
  int port() const { return server_.port(); }
  const HttpServer& server() const { return server_; }

 private:
  void answer(const HttpRequest& request, Reply& reply);
  void complete(const HttpRequest& request, Reply& reply);
  bool refuse(Reply& reply, int64_t number);
  void break_off(Reply& reply);
  std::string metrics() const;

  FaultEngineOptions options_;
  std::atomic<int64_t> completions_ = 0;
  std::atomic<int64_t> drafts_ = 0;
  std::atomic<int64_t> accepted_ = 0;
  std::atomic<bool> dead_ = false;
  HttpServer server_;  // last: its threads use the rest
};

}  // namespace sweep::test
