// What closed and open loop share: requests of a phase, sent in order, each with its record. Internal to this module.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "orchestrator/http/streams.h"
#include "orchestrator/loadgen/closed_loop.h"
#include "orchestrator/loadgen/request_record.h"

namespace sweep::loadgen {

class Load {
 public:
  // Checks the spec, and makes room for so many connections at a time. The references must outlive the load.
  static diag::Result<Load> open(const LoadSpec& spec, int64_t connections, const SampleSink& sink,
                                 const ProgressSink& progress, std::stop_token stop);

  // Prepares the requests of a phase. Nothing may be in flight.
  void begin(sample::Phase phase, int64_t requests);

  // Whether another request of the phase is to be sent: there is one, and the load has not ended early.
  bool has_next() const { return may_send() && next_sequence_ < state_.total; }

  // Sends the next one. `scheduled_ns`: when it was due (CLOCK_MONOTONIC); absent: now.
  void send_next(std::optional<int64_t> scheduled_ns = {});

  // Delivers replies until none is in flight; `replied` is called as each ends, before anything slow.
  void drain(const std::function<void()>& replied = {});

  // Delivers replies for up to `longest`.
  void poll(std::chrono::nanoseconds longest);

  bool in_flight() const { return streams_.active() != 0; }

  // After the last phase.
  diag::Result<Measurement> finish();

 private:
  Load(const LoadSpec& spec, const SampleSink& sink, const ProgressSink& progress, http::Streams streams,
       std::stop_token stop)
      : spec_(&spec), sink_(&sink), progress_(&progress), streams_(std::move(streams)), stop_(std::move(stop)) {}

  bool may_send() const { return !stop_.stop_requested() && !gave_up_ && !sink_error_; }
  std::string body_of(int64_t sequence, uint64_t seed);
  void on_end(RequestRecord& record, const http::StreamEnd& end);
  void count_failure(const http::StreamEnd& end);
  void note_problems(const RequestRecord& record);
  void note_joined_events();
  void report_progress(bool now);

  const LoadSpec* spec_;
  const SampleSink* sink_;
  const ProgressSink* progress_;
  http::Streams streams_;
  std::stop_token stop_;

  std::function<void()> replied_;
  Progress state_;
  int64_t next_sequence_ = 0;
  int64_t last_progress_ns_ = 0;
  std::vector<std::string> bodies_;  // by sequence; prepared while nothing is in flight
  int64_t incomplete_in_a_row_ = 0;
  bool gave_up_ = false;
  int64_t received_unknown_ = 0;
  int64_t token_events_ = 0;  // of measured replies
  int64_t chunks_ = 0;        // what was left of them: events that were read together are one
  std::optional<diag::Diagnostic> sink_error_;
  Measurement measurement_;
};

}  // namespace sweep::loadgen
