// SIGINT and SIGTERM as a stop request. The first one asks every stage to stop cleanly, the second one ends the process
// at once (children die with it).
#pragma once

#include <stop_token>
#include <thread>

#include "orchestrator/cli/exit_code.h"

namespace sweep::cli {

class Interrupt {
 public:
  // Blocks the signals in the calling thread and in every thread started after: construct it first.
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }

  // kInterrupted or kTerminated once a signal came, kGood before.
  ExitCode exit_code() const;

 private:
  std::stop_source source_;
  std::jthread watcher_;
};

}  // namespace sweep::cli
