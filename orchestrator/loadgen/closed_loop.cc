#include "orchestrator/loadgen/closed_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/http/streams.h"
#include "orchestrator/loadgen/request_record.h"

namespace sweep::loadgen {

namespace {

constexpr std::chrono::milliseconds kProgressInterval{100};
constexpr int64_t kNanosecondsPerMillisecond = 1'000'000;
constexpr size_t kMostPreparedBytes = size_t{256} << 20;

class ClosedLoop {
 public:
  ClosedLoop(const LoadSpec& spec, const SampleSink& sink, const ProgressSink& progress, http::Streams streams,
             std::stop_token stop)
      : spec_(spec), sink_(sink), progress_(progress), streams_(std::move(streams)), stop_(std::move(stop)) {}

  void run_phase(sample::Phase phase, int64_t requests);
  diag::Result<Measurement> finish();

 private:
  bool may_send() const { return !stop_.stop_requested() && !gave_up_ && !sink_error_; }
  void prepare();
  void send_next();
  void on_end(RequestRecord& record, const http::StreamEnd& end);
  void count_failure(const http::StreamEnd& end);
  void note_problems(const RequestRecord& record);
  void report_progress(bool now);

  const LoadSpec& spec_;
  const SampleSink& sink_;
  const ProgressSink& progress_;
  http::Streams streams_;
  std::stop_token stop_;

  Progress state_;
  int64_t next_sequence_ = 0;
  int64_t last_progress_ns_ = 0;
  std::vector<std::string> bodies_;  // by sequence; prepared while nothing is in flight
  int64_t incomplete_in_a_row_ = 0;
  bool gave_up_ = false;
  int64_t received_unknown_ = 0;
  std::optional<diag::Diagnostic> sink_error_;
  Measurement measurement_;
};

void ClosedLoop::prepare() {
  bodies_.clear();
  size_t bytes = 0;
  while (static_cast<int64_t>(bodies_.size()) < state_.total && bytes < kMostPreparedBytes) {
    const auto sequence = static_cast<int64_t>(bodies_.size());
    bodies_.push_back(completion_body(spec_, prompt_seed(spec_.seed, state_.phase, sequence)));
    bytes += bodies_.back().size();
  }
}

void ClosedLoop::run_phase(sample::Phase phase, int64_t requests) {
  state_ = Progress{.phase = phase, .total = requests};
  next_sequence_ = 0;
  if (may_send()) {
    prepare();
    for (int64_t i = 0; i < std::min(spec_.concurrency, requests); ++i) send_next();
    while (streams_.active() != 0) {
      streams_.poll(kProgressInterval);
      report_progress(false);
    }
  }
  if (phase == sample::Phase::kMeasured) measurement_.not_sent = requests - next_sequence_;
}

void ClosedLoop::send_next() {
  if (!may_send() || next_sequence_ >= state_.total) return;
  const int64_t sequence = next_sequence_++;
  const uint64_t seed = prompt_seed(spec_.seed, state_.phase, sequence);
  auto record = std::make_shared<RequestRecord>(spec_, state_.phase, sequence, seed);
  http::Request request{.url = spec_.base_url + "/v1/completions",
                        .headers = {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}},
                        .body = static_cast<size_t>(sequence) < bodies_.size()
                                    ? std::move(bodies_[static_cast<size_t>(sequence)])
                                    : completion_body(spec_, seed),
                        .timeouts = spec_.timeouts,
                        .ca_file = spec_.ca_file};
  if (!spec_.api_key.empty()) request.headers.push_back({"Authorization", "Bearer " + spec_.api_key});
  ++state_.in_flight;
  record->sent(base::monotonic_ns(), base::unix_ns());
  streams_.start(
      http::Method::kPost, std::move(request),
      {.head = [record](const http::ReplyHead& head) { record->begin(head); },
       .bytes = [record](std::string_view bytes, int64_t received_ns) { record->receive(bytes, received_ns); },
       .end = [this, record](const http::StreamEnd& end) { on_end(*record, end); }});
}

void ClosedLoop::on_end(RequestRecord& record, const http::StreamEnd& end) {
  --state_.in_flight;
  ++state_.finished;
  count_failure(end);
  send_next();  // before anything slow: the gap is part of the load
  record.finish(end);
  const sample::Sample& sample = record.sample();
  if (!sample.ok()) ++state_.failed;
  if (sample.ok() && !sample.received_tokens) ++received_unknown_;
  state_.output_tokens += sample.completion_tokens.value_or(sample.received_tokens.value_or(0));
  note_problems(record);
  if (!sink_error_)
    if (auto stored = sink_(sample); !stored) sink_error_ = std::move(stored).error();
  measurement_.samples.push_back(sample);
  report_progress(true);
}

void ClosedLoop::count_failure(const http::StreamEnd& end) {
  incomplete_in_a_row_ = end.error ? incomplete_in_a_row_ + 1 : 0;
  if (spec_.give_up_after <= 0 || incomplete_in_a_row_ < spec_.give_up_after || stop_.stop_requested()) return;
  const bool nothing_left = next_sequence_ >= state_.total && state_.phase == sample::Phase::kMeasured;
  if (nothing_left) return;
  gave_up_ = true;
}

void ClosedLoop::note_problems(const RequestRecord& record) {
  const sample::Sample& sample = record.sample();
  const std::string_view phase = sample.phase == sample::Phase::kWarmUp ? "warm-up request" : "request";
  for (diag::Diagnostic problem : record.problems()) {
    problem.message = fmt::format("{} {}: {}", phase, sample.sequence, problem.message);
    measurement_.problems.add(std::move(problem));
  }
}

void ClosedLoop::report_progress(bool now) {
  if (!progress_) return;
  const int64_t now_ns = base::monotonic_ns();
  if (!now && now_ns - last_progress_ns_ < kProgressInterval.count() * kNanosecondsPerMillisecond) return;
  last_progress_ns_ = now_ns;
  progress_(state_);
}

diag::Result<Measurement> ClosedLoop::finish() {
  if (sink_error_) return diag::fail(std::move(*sink_error_));
  if (gave_up_)
    measurement_.problems.add(diag::make(
        diag::rule::load_gave_up,
        fmt::format("gave up after {} requests in a row without a complete reply; {} of {} requests were not sent",
                    incomplete_in_a_row_, measurement_.not_sent, spec_.requests),
        "look into the engine's log"));
  if (received_unknown_ != 0)
    measurement_.problems.add(
        diag::make(diag::rule::load_received_unknown,
                   fmt::format("the received tokens of {} requests could not be counted", received_unknown_),
                   "a server with return_token_ids or continuous_usage_stats lets the length be checked twice"));
  measurement_.cancelled = stop_.stop_requested();
  measurement_.window = sample::measured_window(measurement_.samples);
  return std::move(measurement_);
}

}  // namespace

diag::Result<Measurement> run_closed_loop(const LoadSpec& spec, const SampleSink& sink, const ProgressSink& progress,
                                          const std::stop_token& stop) {
  const diag::Diagnostics wrong = check(spec);
  if (!wrong.empty()) return diag::fail(wrong.items().front());
  auto streams = http::Streams::open(stop);
  if (!streams) return diag::fail(std::move(streams).error());
  ClosedLoop loop(spec, sink, progress, std::move(*streams), stop);
  if (spec.warmup_requests > 0) loop.run_phase(sample::Phase::kWarmUp, spec.warmup_requests);
  loop.run_phase(sample::Phase::kMeasured, spec.requests);
  return loop.finish();
}

}  // namespace sweep::loadgen
