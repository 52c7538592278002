// The routes of the server: OpenAI's completions and models, health, metrics, and what the server is.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "orchestrator/engine/embedded/checkpoint.h"
#include "orchestrator/engine/embedded/completion_request.h"
#include "orchestrator/engine/embedded/engine.h"
#include "orchestrator/engine/embedded/http_server.h"
#include "orchestrator/engine/embedded/kernel_library.h"

namespace sweep::engine::embedded {

class Api {
 public:
  // The references must outlive the API.
  Api(Engine& engine, const Checkpoint& model, const KernelLibrary& kernels, std::string model_name);

  // Thread-safe; never throws.
  void answer(const HttpRequest& request, ResponseWriter& writer);

 private:
  void dispatch(const HttpRequest& request, ResponseWriter& writer);
  void complete(const HttpRequest& request, ResponseWriter& writer);
  void complete_whole(const CompletionRequest& request, TokenStream& stream, const std::string& id,
                      ResponseWriter& writer);
  void complete_streaming(const CompletionRequest& request, TokenStream& stream, const std::string& id,
                          ResponseWriter& writer);
  std::string models_text() const;
  std::string server_info_text() const;

  Engine& engine_;
  const Checkpoint& model_;
  const KernelLibrary& kernels_;
  std::string model_name_;
  int64_t started_s_;
  std::atomic<uint64_t> next_id_{0};
};

}  // namespace sweep::engine::embedded
