// The engine: one thread that runs all requests together. Prompts run in chunks between decode steps; a decode step
// drafts, verifies and commits for every running request at once. A request's tokens do not depend on its neighbours.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "orchestrator/base/rng.h"
#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/block_pool.h"
#include "orchestrator/engine/embedded/decoder.h"
#include "orchestrator/engine/embedded/engine_metrics.h"
#include "orchestrator/engine/embedded/event_log.h"
#include "orchestrator/engine/embedded/generation.h"
#include "orchestrator/engine/embedded/model_config.h"
#include "orchestrator/engine/embedded/sampling.h"

namespace sweep::engine::embedded {

struct EngineOptions {
  int64_t num_draft_tokens = 7;  // 0: plain decoding
  double acceptance_length = 0;  // 0: measured; else explicit, 1 to num_draft_tokens + 1
  int64_t max_num_seqs = 16;     // requests in one batch
  int64_t max_model_len = 8704;  // prompt and generated tokens of one request
  int64_t kv_blocks = 0;         // 0: enough for max_num_seqs requests of max_model_len
  int64_t prefill_tokens = 512;  // most prompt tokens between two decode steps; 0 (serve() only): as suits the device
  int threads = 1;
  uint64_t seed = 0;
};

// What a decoder must hold for these options: blocks of the KV cache, and positions of a sequence with what is run
// ahead.
int64_t cache_blocks(const EngineOptions& options, const ModelConfig& config);
int64_t positions_needed(const EngineOptions& options);

// Why these options do not fit the model; empty if they do.
std::string options_problem(const EngineOptions& options, const ModelConfig& config);

class Engine {
 public:
  // `options` must fit the model, and `decoder` must hold what they need. The references must outlive the engine.
  Engine(const ModelConfig& config, Decoder& decoder, const EngineOptions& options, EventLog& log);
  // Stops after the step under way; streams of unfinished requests get no further event.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Thread-safe. The prompt and max_tokens must fit max_model_len.
  std::shared_ptr<TokenStream> submit(GenerationParameters parameters);

  // Why the decoder failed; absent as long as it works. All requests have got this reason then, and so does each that
  // is submitted later: what is left of the decoder's state is not known. Thread-safe.
  std::optional<diag::Diagnostic> failure() const;

  MetricValues metrics() const { return metrics_.read(); }
  const EngineOptions& options() const { return options_; }
  int64_t kv_blocks() const { return blocks_.num_blocks(); }
  const Decoder& decoder() const { return decoder_; }

 private:
  struct Request;
  struct Step;
  using Requests = std::vector<std::unique_ptr<Request>>;

  void loop(const std::stop_token& stop);
  void admit();
  void drop_cancelled();
  void retire(Request& request, FinishReason reason, bool aborted);
  void remove_retired();
  void publish_load();

  void prefill();
  void decode();
  diag::Result<diag::Done> draft(Step& step);
  diag::Result<std::vector<std::vector<int32_t>>> verify(Step& step);
  Verdict judge(Step& step, size_t index);
  std::span<float> masked_logits(const Request& request, int64_t ahead, float* logits) const;
  int32_t first_token(Request& request, std::span<float> logits) const;
  void commit(Request& request, std::span<const int32_t> tokens);
  void fail(const diag::Diagnostic& reason);
  static void refuse(Request& request, const diag::Diagnostic& reason);
  void count_step(int64_t accepted);
  void log_window(int64_t begin_ns, int64_t steps);

  const ModelConfig& config_;
  Decoder& decoder_;
  EngineOptions options_;
  EventLog& log_;
  BlockPool blocks_;
  EngineMetrics metrics_;

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::unique_ptr<Request>> incoming_;
  int64_t next_id_ = 0;
  std::optional<diag::Diagnostic> failure_;

  // Of the engine's thread alone.
  std::deque<std::unique_ptr<Request>> waiting_;
  Requests active_;
  std::vector<float> logits_;
  struct Window {
    int64_t begin_ns = 0;
    int64_t steps = 0;
    int64_t accepted = 0;
    StepTimes device;  // at its beginning
  } window_;

  std::jthread thread_;  // last: it uses everything above
};

}  // namespace sweep::engine::embedded
