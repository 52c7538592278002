// Stands in for an inference engine in tests of its launch: takes the engine's own command line, writes its dialect of
// log, serves its endpoints, and fails as asked. It serves no model: tokens are made up, by the acceptance length.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/http_server.h"

namespace sweep::test {

enum class Dialect : uint8_t { kSglang, kVllm, kTrtllm, kAtom, kEmbedded };

enum class Mishap : uint8_t {
  kNone,
  kDieBeforeReady,     // a traceback, then exit status 1
  kMemoryBeforeReady,  // runs out of memory and ends
  kMemoryAndHang,      // runs out of memory and stays, without ever serving
  kPortInLog,          // says that its port is taken, and ends
  kDeviceError,        // a CUDA error while it starts, and ends
  kHangBeforeReady,    // never serves
  kWrongModel,         // serves another model
  kProbeError,         // answers completions with status 500
  kDieMidRun,          // ends inside a measured request
  kKilledMidRun,       // by SIGKILL
  kMemoryMidRun,       // runs out of memory inside a measured request, and ends
  kHangMidRun,         // stops answering inside a measured request
  kHangInWarmUp,       // inside the first request behind the probe, and then answers nothing any more
  kHangAtEnd,          // inside the last measured request, and then answers nothing any more
  kDieAfter,           // ends with the last request
  kErrorLogged,        // logs an error between measured requests, and goes on
  kShort,              // one token less than asked for
  kLong,               // one more
  kPromptShort,        // counts one prompt token less
  kAcceptanceOff,      // acceptance length 4.2 whatever was asked
  kDeadDraft,          // accepts nothing
  kCached,             // half of each prompt comes from the prefix cache
  kCompileInWindow,    // compiles between measured requests
  kCompileInWarmUp,    // only before them
  kRestarted,          // its counters begin again inside the window
  kNoCounters,         // does not tell what it did
  kOtherClient,        // serves somebody else in the window
  kIgnoresTerm,        // does not end when asked to
};
std::string_view mishap_name(Mishap mishap);
std::optional<Mishap> parse_mishap(std::string_view name);

struct EngineDoubleOptions {
  Dialect dialect = Dialect::kSglang;
  Mishap mishap = Mishap::kNone;
  std::string model;
  std::string kernels_sha256;  // of the library that the bundled engine was given
  int port = 0;
  int64_t steps_per_line = 5;  // of a decode log window
  std::chrono::milliseconds step{0};
  int64_t first_measured = 0;  // number of the first measured completion, from 1; probe and warm-up come before
  int64_t last_measured = 0;
};

// Writes the log to standard output.
class EngineDouble {
 public:
  explicit EngineDouble(EngineDoubleOptions options);

  // What the engine says before it serves. Does not come back where it fails before it serves.
  static void announce(const EngineDoubleOptions& options);

  int port() const { return server_.port(); }

 private:
  // Since the start, over all requests.
  struct Totals {
    int64_t steps = 0;
    int64_t accepted = 0;
    std::vector<int64_t> by_accepted = std::vector<int64_t>(8);  // steps by accepted drafts
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t generated_tokens = 0;
    int64_t requests = 0;
  };
  struct Request {
    int64_t number = 0;
    int64_t prompt_tokens = 0;
    int64_t output_tokens = 0;
    bool is_chat = false;
  };

  void answer(const HttpRequest& request, Reply& reply);
  bool answer_about_itself(const std::string& target, Reply& reply);
  void complete(Request request, Reply& reply);
  void stream(const Request& request, Reply& reply);
  int64_t commit(int64_t step);
  bool fail_in(const Request& request, Reply& reply);
  void log_around(const Request& request);
  std::string counters();
  std::string statistics();
  double length() const;
  bool is_measured(const Request& request) const;

  EngineDoubleOptions options_;
  std::atomic<bool> hangs_ = false;
  std::mutex mutex_;  // of what follows
  Totals totals_;
  Totals drained_;  // TensorRT-LLM: what a reading has taken
  int64_t completions_ = 0;
  int64_t window_steps_ = 0;
  int64_t window_accepted_ = 0;
  int64_t window_begin_ns_ = 0;
  HttpServer server_;  // last: its threads use the rest
};

}  // namespace sweep::test
