// One generation: what is asked, and the stream of tokens that comes back.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/file.h"

namespace sweep::engine::embedded {

struct GenerationParameters {
  std::vector<int32_t> prompt;  // not empty, all inside the vocabulary
  int64_t max_tokens = 16;      // >= 1
  int64_t min_tokens = 0;       // the end token is impossible before that many tokens
  bool ignore_eos = false;
  double temperature = 0;  // 0 = greedy
  uint64_t seed = 0;
};

enum class FinishReason : uint8_t { kLength, kStop, kError };
std::string_view finish_reason_name(FinishReason reason);

// The tokens of one step.
struct TokenEvent {
  std::vector<int32_t> tokens;
  std::optional<FinishReason> finish;
  std::string error;  // with kError
};

// Passes events from the engine's thread to the connection's. Thread-safe.
class TokenStream {
 public:
  TokenStream();  // throws std::system_error if the system has no descriptors left

  // Readable while events wait; to be polled together with the connection's socket.
  int descriptor() const { return event_fd_.get(); }

  void push(TokenEvent event);
  std::optional<TokenEvent> pop();

  // The reader has no more interest; the engine drops the request at the next step.
  void cancel();
  bool cancelled() const;

 private:
  base::FileDescriptor event_fd_;
  mutable std::mutex mutex_;
  std::deque<TokenEvent> events_;
  bool cancelled_ = false;
};

}  // namespace sweep::engine::embedded
