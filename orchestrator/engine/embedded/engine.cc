#include "orchestrator/engine/embedded/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/clock.h"
#include "orchestrator/engine/embedded/engine_request.h"

namespace sweep::engine::embedded {

namespace {

// Two streams of random numbers per request, so that the schedule of acceptance does not shift with the tokens.
constexpr uint64_t kSampleStream = 0x73616D706C65u;
constexpr uint64_t kAcceptStream = 0x616363657074u;

// From the seeds and the prompt alone: neither the order of arrival nor the batch plays a part.
uint64_t request_seed(uint64_t engine_seed, const GenerationParameters& parameters) {
  base::SplitMix64 mixed(engine_seed);
  uint64_t hash = mixed.next() ^ parameters.seed;
  for (const int32_t token : parameters.prompt) {
    base::SplitMix64 next(hash ^ static_cast<uint64_t>(token));
    hash = next.next();
  }
  return hash;
}

int64_t blocks_per_request(const EngineOptions& options, const ModelConfig& config) {
  const int64_t tokens = options.max_model_len + options.num_draft_tokens;
  return (tokens + config.kv_block_size - 1) / config.kv_block_size;
}

}  // namespace

Engine::Request::Request(int64_t number, uint64_t seed, GenerationParameters asked)
    : id(number),
      parameters(std::move(asked)),
      stream(std::make_shared<TokenStream>()),
      tokens(parameters.prompt),
      sample_random(seed ^ kSampleStream),
      accept_random(seed ^ kAcceptStream) {}

std::string options_problem(const EngineOptions& options, const ModelConfig& config) {
  if (options.num_draft_tokens < 0 || options.num_draft_tokens > config.dspark_block_size) {
    return fmt::format("{} draft tokens are asked for, the checkpoint's draft head gives 0 to {}",
                       options.num_draft_tokens, config.dspark_block_size);
  }
  if (options.acceptance_length != 0) {
    if (options.num_draft_tokens == 0) return "an explicit acceptance length needs draft tokens";
    const auto most = static_cast<double>(options.num_draft_tokens + 1);
    if (!(options.acceptance_length >= 1 && options.acceptance_length <= most)) {
      return fmt::format("acceptance length {} is outside 1 to {} (draft tokens + 1)", options.acceptance_length, most);
    }
  }
  if (options.max_model_len < 2 || options.max_model_len > config.max_position_embeddings) {
    return fmt::format("a model length of {} is asked for, the model has {} positions", options.max_model_len,
                       config.max_position_embeddings);
  }
  if (options.max_num_seqs < 1 || options.max_num_seqs > 1024) {
    return fmt::format("{} requests at once are asked for, expected 1 to 1024", options.max_num_seqs);
  }
  if (options.threads < 1 || options.threads > 1024)
    return fmt::format("{} threads, expected 1 to 1024", options.threads);
  if (options.kv_blocks != 0 && options.kv_blocks < blocks_per_request(options, config)) {
    return fmt::format("{} cache blocks cannot hold one request of {} tokens, which takes {}", options.kv_blocks,
                       options.max_model_len, blocks_per_request(options, config));
  }
  return {};
}

int64_t cache_blocks(const EngineOptions& options, const ModelConfig& config) {
  return options.kv_blocks != 0 ? options.kv_blocks : options.max_num_seqs * blocks_per_request(options, config);
}

int64_t positions_needed(const EngineOptions& options) {
  return options.max_model_len + FLASHMLA_MAX_QUERY_TOKENS;
}

Engine::Engine(const ModelConfig& config, Decoder& decoder, const EngineOptions& options, EventLog& log)
    : config_(config),
      decoder_(decoder),
      options_(options),
      log_(log),
      blocks_(cache_blocks(options, config), config.kv_block_size),
      thread_([this](const std::stop_token& stop) { loop(stop); }) {}

Engine::~Engine() = default;

std::shared_ptr<TokenStream> Engine::submit(GenerationParameters parameters) {
  const uint64_t seed = request_seed(options_.seed, parameters);
  const std::lock_guard lock(mutex_);
  auto request = std::make_unique<Request>(next_id_++, seed, std::move(parameters));
  auto stream = request->stream;
  if (failure_) {
    metrics_.update([](MetricValues& values) { ++values.finished_error; });
    refuse(*request, *failure_);
    return stream;
  }
  incoming_.push_back(std::move(request));
  metrics_.update([](MetricValues& values) { ++values.waiting; });
  wake_.notify_one();
  return stream;
}

std::optional<diag::Diagnostic> Engine::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Engine::loop(const std::stop_token& stop) {
  while (!stop.stop_requested() && !failure()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, stop, [&] { return !incoming_.empty() || !waiting_.empty() || !active_.empty(); });
      while (!incoming_.empty()) {
        waiting_.push_back(std::move(incoming_.front()));
        incoming_.pop_front();
      }
    }
    if (stop.stop_requested()) return;
    drop_cancelled();
    admit();
    publish_load();
    prefill();
    if (!failure()) decode();
    remove_retired();
    publish_load();
  }
}

// First come, first served: a request that does not fit yet also holds up those behind it.
void Engine::admit() {
  while (!waiting_.empty() && static_cast<int64_t>(active_.size()) < options_.max_num_seqs) {
    Request& request = *waiting_.front();
    const int64_t tokens = static_cast<int64_t>(request.parameters.prompt.size()) + request.parameters.max_tokens +
                           options_.num_draft_tokens;
    if (!blocks_.allocate(blocks_.blocks_for(tokens), request.sequence.blocks)) return;
    request.sequence.memory = decoder_.make_memory();
    log_.write({{"event", "request_start"},
                {"id", request.id},
                {"prompt_tokens", request.parameters.prompt.size()},
                {"max_tokens", request.parameters.max_tokens},
                {"unix_ns", base::unix_ns()}});
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void Engine::drop_cancelled() {
  std::erase_if(waiting_, [&](const std::unique_ptr<Request>& request) {
    if (!request->stream->cancelled()) return false;
    metrics_.update([](MetricValues& values) { ++values.finished_abort; });
    return true;
  });
  for (const auto& request : active_) {
    if (request->stream->cancelled()) retire(*request, FinishReason::kError, true);
  }
  remove_retired();
}

void Engine::retire(Request& request, FinishReason reason, bool aborted) {
  request.retired = true;
  blocks_.release(request.sequence.blocks);
  request.sequence.memory.reset();
  metrics_.update([&](MetricValues& values) {
    if (aborted) {
      ++values.finished_abort;
    } else if (reason == FinishReason::kLength) {
      ++values.finished_length;
    } else if (reason == FinishReason::kStop) {
      ++values.finished_stop;
    } else {
      ++values.finished_error;
    }
  });
  log_.write({{"event", "request_end"},
              {"id", request.id},
              {"prompt_tokens", request.parameters.prompt.size()},
              {"completion_tokens", request.generated},
              {"finish_reason", aborted ? "abort" : finish_reason_name(reason)},
              {"unix_ns", base::unix_ns()}});
  publish_load();
}

void Engine::remove_retired() {
  std::erase_if(active_, [](const std::unique_ptr<Request>& request) { return request->retired; });
}

void Engine::publish_load() {
  int64_t incoming = 0;
  {
    const std::lock_guard lock(mutex_);
    incoming = static_cast<int64_t>(incoming_.size());
  }
  const auto running = std::count_if(active_.begin(), active_.end(), [](const auto& r) { return !r->retired; });
  const double used = 1.0 - static_cast<double>(blocks_.free_blocks()) / static_cast<double>(blocks_.num_blocks());
  metrics_.update([&](MetricValues& values) {
    values.running = running;
    values.waiting = incoming + static_cast<int64_t>(waiting_.size());
    values.kv_usage = used;
  });
}

}  // namespace sweep::engine::embedded
