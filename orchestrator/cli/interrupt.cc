#include "orchestrator/cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace sweep::cli {

namespace {

std::atomic<int> g_signal{0};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

int code_of(int signal) {
  return 128 + signal;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  watcher_ = std::jthread([this, signals](const std::stop_token& done) {
    constexpr timespec kPoll{.tv_sec = 0, .tv_nsec = 50'000'000};
    while (!done.stop_requested()) {
      const int got = sigtimedwait(&signals, nullptr, &kPoll);
      if (got <= 0) continue;
      if (g_signal.exchange(got) != 0) _exit(code_of(got));
      source_.request_stop();
    }
  });
}

Interrupt::~Interrupt() {
  watcher_.request_stop();
}

ExitCode Interrupt::exit_code() const {
  switch (g_signal.load()) {
    case 0:
      return ExitCode::kGood;
    case SIGINT:
      return ExitCode::kInterrupted;
    default:
      return ExitCode::kTerminated;
  }
}

}  // namespace sweep::cli
