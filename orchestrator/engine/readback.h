// What a server says it did between the two ends of the measured window, whatever engine it is: the same readers as
// `sweepctl inspect`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/adapter.h"
#include "orchestrator/engine/decode_log.h"
#include "orchestrator/engine/server.h"
#include "orchestrator/engine/spec_counters.h"

namespace sweep::engine {

// The answers at one end, as they came; empty where there was none.
struct Reading {
  std::string counters;
  std::string statistics;
  bool is_reachable = false;  // the server answered at all, be it by a bad status
};

// Reads each endpoint of the framework once. One that does not answer is a warning (engine/no-counters).
Reading take_reading(const Framework& framework, const ServerAddress& server, const std::stop_token& stop,
                     diag::Diagnostics& diagnostics);

// Another reading of the same end. What a drained endpoint gave before is kept in front.
void read_again(const Framework& framework, const ServerAddress& server, const std::stop_token& stop, Reading& reading);

// What was received of the engine in the window.
struct ServedTokens {
  int64_t requests = 0;
  int64_t tokens = 0;
};
// False if the engine has counted less than was received of it. True for one that does not count, and where the counts
// mean nothing.
bool is_complete(const Framework& framework, const Reading& before, const Reading& after, const ServedTokens& served);

struct ReadBack {
  SpecCounters counted;                    // between the readings, over all engines of the server
  std::optional<double> mean_since_start;  // a mean that cannot be cut to the window: warm-up is in it
  std::string problem;                     // why the counts mean nothing; empty: they do
};

// Counters of the Prometheus page and of the document complete one another. A page that cannot be understood, or
// counters that fell because the server was restarted, are a problem, not an error: the run is judged with it.
ReadBack counted_between(const Framework& framework, const Reading& before, const Reading& after);

nlohmann::json to_json(const ReadBack& read_back);
diag::Result<ReadBack> read_back_from_json(const nlohmann::json& json);

// What the log says about the window.
struct WindowLog {
  DecodeLog log;
  std::string problem;  // why the log could not be read; empty: it could
};
// The part of the log that was written in the window: between two sizes of the file. The bundled engine's windows have
// exact times, so that those which begin or end outside of the window are left out.
struct LogSpan {
  uint64_t from_byte = 0;
  uint64_t to_byte = 0;
  int64_t from_unix_ns = 0;
  int64_t to_unix_ns = 0;
};
WindowLog read_window_log(const Framework& framework, const std::filesystem::path& file, const LogSpan& span);

nlohmann::json to_json(const WindowLog& log);
diag::Result<WindowLog> window_log_from_json(const nlohmann::json& json);

}  // namespace sweep::engine
