#include "orchestrator/cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

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
    while (true) {
      const int got = sigwaitinfo(&signals, nullptr);
      if (done.stop_requested()) return;  // the signal was the destructor's
      if (got <= 0) continue;
      if (g_signal.exchange(got) != 0) _exit(code_of(got));
      source_.request_stop();
    }
  });
}

Interrupt::~Interrupt() {
  watcher_.request_stop();
  pthread_kill(watcher_.native_handle(), SIGTERM);
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
