// An engine process under our care, from start to the end of its process group.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/adapter.h"
#include "orchestrator/exec/process.h"
#include "orchestrator/http/request.h"

namespace sweep::engine {

class RunningEngine {
 public:
  // Starts the command and waits until the server answers and lists the model. The engine is stopped again on failure.
  static diag::Result<RunningEngine> start(const Launch& launch, std::chrono::seconds limit,
                                           const std::stop_token& stop);

  const std::string& base_url() const { return base_url_; }
  pid_t pid() const { return process_.pid(); }

  // The diagnostic of an engine that ended by itself; nothing if it still runs after `patience`. A dying process closes
  // its connections before it can be seen as ended, so after a broken connection a moment's patience is needed.
  std::optional<diag::Diagnostic> death(std::chrono::milliseconds patience);

  // Ends the whole process group, gently first.
  void stop();

 private:
  RunningEngine(exec::Process process, std::string base_url, std::string log)
      : process_(std::move(process)), base_url_(std::move(base_url)), log_(std::move(log)) {}

  exec::Process process_;
  std::string base_url_;
  std::string log_;
};

// The same check for a server that someone else runs (`--engine-url`).
diag::Result<base::Done> check_server(const std::string& base_url, const std::string& model,
                                      const std::stop_token& stop, const http::Access& access = {});

}  // namespace sweep::engine
