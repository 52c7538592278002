#include "orchestrator/loadgen/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/http/open_files.h"

namespace sweep::loadgen {

namespace {
constexpr std::chrono::milliseconds kProgressInterval{100};
constexpr size_t kMostPreparedBytes = size_t{256} << 20;
}  // namespace

diag::Result<Load> Load::open(const LoadSpec& spec, int64_t connections, const SampleSink& sink,
                              const ProgressSink& progress, std::stop_token stop) {
  const diag::Diagnostics wrong = check(spec);
  if (!wrong.empty()) return diag::fail(wrong.items().front());
  if (auto room = http::make_room_for(connections); !room) return diag::fail(std::move(room).error());
  auto streams = http::Streams::open(stop);
  if (!streams) return diag::fail(std::move(streams).error());
  return Load(spec, sink, progress, std::move(*streams), std::move(stop));
}

void Load::begin(sample::Phase phase, int64_t requests) {
  state_ = Progress{.phase = phase, .total = requests};
  next_sequence_ = 0;
  if (phase == sample::Phase::kMeasured) measurement_.not_sent = requests;
  bodies_.clear();
  if (!may_send()) return;
  size_t bytes = 0;
  while (static_cast<int64_t>(bodies_.size()) < state_.total && bytes < kMostPreparedBytes) {
    const auto sequence = static_cast<int64_t>(bodies_.size());
    bodies_.push_back(completion_body(*spec_, prompt_seed(spec_->seed, state_.phase, sequence)));
    bytes += bodies_.back().size();
  }
}

std::string Load::body_of(int64_t sequence, uint64_t seed) {
  const auto index = static_cast<size_t>(sequence);
  return index < bodies_.size() ? std::move(bodies_[index]) : completion_body(*spec_, seed);
}

void Load::send_next(std::optional<int64_t> scheduled_ns) {
  if (!has_next()) return;
  const int64_t sequence = next_sequence_++;
  if (state_.phase == sample::Phase::kMeasured) --measurement_.not_sent;
  const uint64_t seed = prompt_seed(spec_->seed, state_.phase, sequence);
  auto record = std::make_shared<RequestRecord>(*spec_, state_.phase, sequence, seed);
  http::Request request{.url = spec_->base_url + std::string(api_path(spec_->api)),
                        .headers = {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}},
                        .body = body_of(sequence, seed),
                        .timeouts = spec_->timeouts,
                        .ca_file = spec_->access.ca_file};
  request.credentials = http::credentials(spec_->access);
  ++state_.in_flight;
  record->sent(base::monotonic_ns(), base::unix_ns());
  if (scheduled_ns) record->scheduled(*scheduled_ns);
  streams_.start(
      http::Method::kPost, std::move(request),
      {.head = [record](const http::ReplyHead& head) { record->begin(head); },
       .bytes = [record](std::string_view bytes, int64_t received_ns) { record->receive(bytes, received_ns); },
       .end = [this, record](const http::StreamEnd& end) { on_end(*record, end); }});
}

void Load::poll(std::chrono::nanoseconds longest) {
  streams_.poll(std::min<std::chrono::nanoseconds>(longest, kProgressInterval));
  report_progress(false);
}

void Load::drain(const std::function<void()>& replied) {
  replied_ = replied;
  while (in_flight()) poll(kProgressInterval);
  replied_ = {};
}

void Load::on_end(RequestRecord& record, const http::StreamEnd& end) {
  --state_.in_flight;
  ++state_.finished;
  count_failure(end);
  if (replied_) replied_();
  record.finish(end);
  const sample::Sample& sample = record.sample();
  if (!sample.ok()) ++state_.failed;
  if (sample.ok() && !sample.received_tokens) ++received_unknown_;
  if (sample.ok() && sample.phase == sample::Phase::kMeasured) {
    token_events_ += record.token_events();
    chunks_ += static_cast<int64_t>(sample.chunks.size());
  }
  state_.output_tokens += sample.completion_tokens.value_or(sample.received_tokens.value_or(0));
  note_problems(record);
  if (!sink_error_)
    if (auto stored = (*sink_)(sample); !stored) sink_error_ = std::move(stored).error();
  measurement_.samples.push_back(sample);
  report_progress(true);
}

void Load::count_failure(const http::StreamEnd& end) {
  incomplete_in_a_row_ = end.error ? incomplete_in_a_row_ + 1 : 0;
  if (spec_->give_up_after <= 0 || incomplete_in_a_row_ < spec_->give_up_after || stop_.stop_requested()) return;
  const bool nothing_left = next_sequence_ >= state_.total && state_.phase == sample::Phase::kMeasured;
  if (nothing_left) return;
  gave_up_ = true;
}

void Load::note_problems(const RequestRecord& record) {
  const sample::Sample& sample = record.sample();
  const std::string_view phase = sample.phase == sample::Phase::kWarmUp ? "warm-up request" : "request";
  for (diag::Diagnostic problem : record.problems()) {
    problem.message = fmt::format("{} {}: {}", phase, sample.sequence, problem.message);
    measurement_.problems.add(std::move(problem));
  }
}

// A few are joined wherever a network is; many blur the times between chunks.
void Load::note_joined_events() {
  constexpr int64_t kFewestEvents = 1000;
  constexpr int64_t kOneIn = 20;
  const int64_t joined = token_events_ - chunks_;
  if (token_events_ < kFewestEvents || joined * kOneIn <= token_events_) return;
  measurement_.problems.add(
      diag::make(diag::rule::load_joined_events,
                 fmt::format("{} of {} events with tokens were read together with another one", joined, token_events_),
                 "measure from a machine with a free core, and without a proxy that collects what it passes on"));
}

void Load::report_progress(bool now) {
  if (!*progress_) return;
  const int64_t now_ns = base::monotonic_ns();
  if (!now && now_ns - last_progress_ns_ < kProgressInterval.count() * base::kNanosecondsPerMillisecond) return;
  last_progress_ns_ = now_ns;
  (*progress_)(state_);
}

diag::Result<Measurement> Load::finish() {
  if (sink_error_) return diag::fail(std::move(*sink_error_));
  if (gave_up_)
    measurement_.problems.add(diag::make(
        diag::rule::load_gave_up,
        fmt::format("gave up after {} requests in a row without a complete reply; {} of {} requests were not sent",
                    incomplete_in_a_row_, measurement_.not_sent, spec_->requests),
        "look into the engine's log"));
  if (received_unknown_ != 0)
    measurement_.problems.add(
        diag::make(diag::rule::load_received_unknown,
                   fmt::format("the received tokens of {} requests could not be counted", received_unknown_),
                   "a server with return_token_ids or continuous_usage_stats lets the length be checked twice"));
  note_joined_events();
  measurement_.cancelled = stop_.stop_requested();
  measurement_.window = sample::measured_window(measurement_.samples);
  return std::move(measurement_);
}

}  // namespace sweep::loadgen
