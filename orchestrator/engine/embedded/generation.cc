#include "orchestrator/engine/embedded/generation.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace sweep::engine::embedded {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kError:
      return "error";
  }
  return "error";
}

TokenStream::TokenStream() : event_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_fd_.is_open()) throw std::system_error(errno, std::generic_category(), "eventfd");
}

void TokenStream::push(TokenEvent event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(event_fd_.get(), &one, sizeof one);
}

std::optional<TokenEvent> TokenStream::pop() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  TokenEvent event = std::move(events_.front());
  events_.pop_front();
  if (events_.empty()) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(event_fd_.get(), &count, sizeof count);
  }
  return event;
}

void TokenStream::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

bool TokenStream::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

}  // namespace sweep::engine::embedded
