#include "orchestrator/sample/metrics.h"

#include <algorithm>
#include <utility>

#include "orchestrator/base/check.h"
#include "orchestrator/base/clock.h"

namespace sweep::sample {

namespace {

// No verification step commits more; a larger count is a server's mistake and must not become an allocation.
constexpr int64_t kMostTokensPerChunk = 1 << 20;

double to_ms(int64_t ns) {
  return static_cast<double>(ns) / base::kNanosecondsPerMillisecond;
}

// The end of a request as far as the window is concerned.
int64_t window_end_ns(const Sample& sample) {
  return sample.ok() && sample.last_token_ns ? *sample.last_token_ns : sample.end_ns;
}

// From its sending to its end. One that is sent as another ends is in flight after it, not with it.
int64_t most_in_flight(std::span<const Sample> samples) {
  std::vector<std::pair<int64_t, int>> changes;
  for (const Sample& sample : samples) {
    if (sample.phase != Phase::kMeasured) continue;
    changes.emplace_back(sample.sent_ns, 1);
    changes.emplace_back(std::max(sample.sent_ns, sample.end_ns), -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0;
  int64_t most = 0;
  for (const auto& [ns, change] : changes) most = std::max(most, now += change);
  return most;
}

stats::Distribution describe(std::vector<double> values) {
  const auto result = stats::describe(std::move(values));
  SWEEPCTL_CHECK(result.has_value());  // differences of integers are finite
  return *result;
}

}  // namespace

std::optional<double> ttft_ms(const Sample& sample) {
  if (!sample.first_token_ns) return std::nullopt;
  return to_ms(*sample.first_token_ns - sample.scheduled_ns);
}

std::optional<double> e2e_ms(const Sample& sample) {
  if (!sample.last_token_ns) return std::nullopt;
  return to_ms(*sample.last_token_ns - sample.scheduled_ns);
}

std::optional<double> tpot_ms(const Sample& sample) {
  const auto tokens = sample.completion_tokens ? sample.completion_tokens : sample.received_tokens;
  if (!tokens || !sample.first_token_ns || !sample.last_token_ns || sample.chunks.empty()) return std::nullopt;
  // Tokens that all came at once say nothing about the time between them.
  if (*tokens < 2 || sample.chunks.size() < 2) return std::nullopt;
  return to_ms(*sample.last_token_ns - *sample.first_token_ns) / static_cast<double>(*tokens - 1);
}

double send_delay_ms(const Sample& sample) {
  return to_ms(sample.sent_ns - sample.scheduled_ns);
}

std::vector<double> itl_ms(const Sample& sample) {
  std::vector<double> result;
  if (sample.chunks.size() < 2) return result;
  int64_t since_ns = sample.chunks.front().ns;
  const int64_t with_the_first = sample.chunks.front().tokens.value_or(1) - 1;
  if (with_the_first >= kMostTokensPerChunk) return {};
  if (with_the_first > 0) result.assign(static_cast<size_t>(with_the_first), 0.0);
  // Text whose token is counted only with a later chunk is the first token all the same.
  int64_t counted_late = with_the_first < 0 ? 1 : 0;
  for (size_t i = 1; i < sample.chunks.size(); ++i) {
    const Chunk& chunk = sample.chunks[i];
    if (!chunk.tokens || *chunk.tokens > kMostTokensPerChunk) return {};
    const int64_t tokens = *chunk.tokens - counted_late;
    if (*chunk.tokens > 0) counted_late = 0;
    if (tokens <= 0) continue;  // text of earlier tokens: its gap belongs to the next chunk
    const double per_token = to_ms(chunk.ns - since_ns) / static_cast<double>(tokens);
    result.insert(result.end(), static_cast<size_t>(tokens), per_token);
    since_ns = chunk.ns;
  }
  return result;
}

std::vector<double> inter_chunk_ms(const Sample& sample) {
  std::vector<double> result;
  for (size_t i = 1; i < sample.chunks.size(); ++i)
    result.push_back(to_ms(sample.chunks[i].ns - sample.chunks[i - 1].ns));
  return result;
}

double Window::seconds() const {
  return static_cast<double>(end_ns - start_ns) / base::kNanosecondsPerSecond;
}

std::optional<Window> measured_window(std::span<const Sample> samples) {
  const Sample* first = nullptr;
  int64_t end_ns = 0;
  for (const Sample& sample : samples) {
    if (sample.phase != Phase::kMeasured) continue;
    if (first == nullptr || sample.sent_ns < first->sent_ns) first = &sample;
    end_ns = std::max(end_ns, window_end_ns(sample));
  }
  if (first == nullptr) return std::nullopt;
  return Window{.start_ns = first->sent_ns,
                .end_ns = end_ns,
                .start_unix_ns = first->sent_unix_ns,
                .end_unix_ns = first->sent_unix_ns + (end_ns - first->sent_ns)};
}

Summary summarise(std::span<const Sample> samples) {
  Summary summary;
  std::vector<double> ttft, tpot, itl, inter_chunk, e2e, send_delay;
  const auto add = [](std::vector<double>& to, const std::optional<double>& value) {
    if (value) to.push_back(*value);
  };
  const auto add_all = [](std::vector<double>& to, const std::vector<double>& values) {
    to.insert(to.end(), values.begin(), values.end());
  };
  for (const Sample& sample : samples) {
    const bool measured = sample.phase == Phase::kMeasured;
    ++(measured ? summary.requests : summary.warm_up_requests);
    if (!sample.ok()) ++(measured ? summary.failed : summary.warm_up_failed);
    if (!measured || !sample.ok()) continue;
    summary.prompt_tokens += sample.prompt_tokens.value_or(0);
    summary.completion_tokens += sample.completion_tokens.value_or(0);
    add(ttft, ttft_ms(sample));
    add(tpot, tpot_ms(sample));
    add(e2e, e2e_ms(sample));
    add(send_delay, send_delay_ms(sample));
    add_all(itl, itl_ms(sample));
    add_all(inter_chunk, inter_chunk_ms(sample));
  }
  summary.ttft_ms = describe(std::move(ttft));
  summary.tpot_ms = describe(std::move(tpot));
  summary.itl_ms = describe(std::move(itl));
  summary.inter_chunk_ms = describe(std::move(inter_chunk));
  summary.e2e_ms = describe(std::move(e2e));
  summary.send_delay_ms = describe(std::move(send_delay));
  summary.most_in_flight = most_in_flight(samples);
  summary.window = measured_window(samples);
  const double seconds = summary.window ? summary.window->seconds() : 0;
  if (seconds > 0) {
    summary.request_throughput = static_cast<double>(summary.requests - summary.failed) / seconds;
    summary.output_token_throughput = static_cast<double>(summary.completion_tokens) / seconds;
    summary.total_token_throughput = static_cast<double>(summary.prompt_tokens + summary.completion_tokens) / seconds;
  }
  return summary;
}

}  // namespace sweep::sample
