// A server that is up, seen from outside: is it ready, what does it serve, what does it say of itself.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "orchestrator/base/deadline.h"
#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/adapter.h"
#include "orchestrator/http/request.h"

namespace sweep::engine {

// Where a server answers, and what its requests need.
struct ServerAddress {
  std::string base_url;
  http::Access access = {};
  // Whoever asks it about itself gives up then; absent: each question has its own limit.
  std::optional<base::Deadline> until = {};
};

// The limits of a question, cut to what the server's deadline leaves.
http::Timeouts within(http::Timeouts limits, const ServerAddress& server);

// One GET of /health and /v1/models: absent if the server does not answer well yet, else the ids of the models.
std::optional<std::vector<std::string>> models_if_ready(const ServerAddress& server, const std::stop_token& stop);

// The same of a server that someone else runs, with the reason why not. A server without /health is taken by its
// models.
diag::Result<std::vector<std::string>> models_of(const ServerAddress& server, const std::stop_token& stop);

// One streamed request.
struct Probe {
  std::string_view path;  // "/v1/completions"
  std::string body;
  std::chrono::milliseconds limit{0};
};
// POSTs it and waits for all of the reply. Fails with the transfer's own rule (http/...) if that does not come, and
// with engine/probe-failed if it is no stream that brings tokens.
diag::Result<base::Done> probe(const ServerAddress& server, const Probe& request, const std::stop_token& stop);

// What the server says of itself: {"version": text|null, "kv_cache": {"dtype", "layout", "from"}|null,
// "server_info": object|null}. What its endpoints leave out is looked for in the log, if there is one: the arguments
// that it was started with, and lines that name its version.
nlohmann::json describe(const Framework& framework, const ServerAddress& server,
                        const std::optional<std::filesystem::path>& log, const std::stop_token& stop);

// The part of describe() that needs no server. `info` and `version` are the documents of the endpoints, or null.
nlohmann::json describe_from(const nlohmann::json& info, const nlohmann::json& version, std::string_view log);

}  // namespace sweep::engine
