// An engine process under our care, from start to the end of everything that it started.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/adapter.h"
#include "orchestrator/engine/server.h"
#include "orchestrator/exec/process.h"

namespace sweep::engine {

class RunningEngine {
 public:
  // Makes sure that the port is free, prepares the container if there is one, starts the command and waits until the
  // server answers and lists the model. All of it is stopped again on failure.
  static diag::Result<RunningEngine> start(const Launch& launch, std::chrono::milliseconds limit,
                                           const std::stop_token& stop);

  RunningEngine(RunningEngine&&) = default;
  RunningEngine& operator=(RunningEngine&&) = delete;
  ~RunningEngine();

  const std::string& base_url() const { return base_url_; }
  pid_t pid() const { return process_.pid(); }
  // All of the engine's processes descend from it: in a container another one than that which was started here.
  pid_t first_process() const { return first_process_; }
  // In the environment of every process that the engine starts; see exec/marked.h.
  const std::string& mark() const { return mark_; }
  // Null without one.
  const Container* container() const { return container_ ? &*container_ : nullptr; }
  // Of the image that the container runs, as the runtime tells: "sha256:...". Empty without a container.
  const std::string& image_digest() const { return image_digest_; }

  // The diagnostic of an engine that ended by itself; nothing if it still runs after `patience`. A dying process closes
  // its connections before it can be seen as ended, so after a broken connection a moment's patience is needed.
  std::optional<diag::Diagnostic> death(std::chrono::milliseconds patience);

  // Ends the engine, gently first: the container, the process group, and what left the group. None of them runs
  // afterwards.
  void stop();

 private:
  RunningEngine(exec::Process process, std::string mark, const Launch& launch, std::string image_digest);
  diag::Result<base::Done> wait_until_ready(const Launch& launch, std::chrono::milliseconds limit,
                                            const std::stop_token& stop);

  std::optional<Container> container_;
  std::string mark_;
  std::string base_url_;
  std::filesystem::path log_;
  std::string image_digest_;
  exec::Process process_;
  pid_t first_process_ = -1;
  bool stopped_ = false;
};

// Ends what an earlier, killed sweepctl left behind, by the engine.json that it wrote.
void end_left_behind(const nlohmann::json& engine);

// The same check for a server that someone else runs (`--engine-url`).
diag::Result<base::Done> check_server(const ServerAddress& server, const std::string& model,
                                      const std::stop_token& stop);

}  // namespace sweep::engine
