// Counters of the engine and their Prometheus text.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "flashmla/flashmla.h"
#include "orchestrator/engine/embedded/step_times.h"

namespace sweep::engine::embedded {

struct MetricValues {
  int64_t drafts = 0;           // verification steps of single requests
  int64_t draft_tokens = 0;     // tokens drafted in them
  int64_t accepted_tokens = 0;  // of those, accepted; counted before a request's last step is cut to its length
  std::array<int64_t, FLASHMLA_MAX_QUERY_TOKENS> accepted_at = {};  // steps that accepted the draft at this position
  int64_t prompt_tokens = 0;
  int64_t generation_tokens = 0;
  int64_t finished_length = 0;
  int64_t finished_stop = 0;
  int64_t finished_abort = 0;
  int64_t finished_error = 0;
  int64_t running = 0;
  int64_t waiting = 0;
  double kv_usage = 0;  // share of the cache's blocks in use, 0 to 1
  StepTimes device;     // of all steps so far
};

// Thread-safe.
class EngineMetrics {
 public:
  template <class Change>
  void update(Change change) {
    const std::lock_guard lock(mutex_);
    change(values_);
  }
  MetricValues read() const {
    const std::lock_guard lock(mutex_);
    return values_;
  }

 private:
  mutable std::mutex mutex_;
  MetricValues values_;
};

// Prometheus text exposition format 0.0.4, names "embedded:...".
std::string metrics_text(const MetricValues& values, int64_t num_draft_tokens, const std::string& model_name);

}  // namespace sweep::engine::embedded
