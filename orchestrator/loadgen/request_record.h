// One request from its sending to its finished sample.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/streams.h"
#include "orchestrator/loadgen/check_lengths.h"
#include "orchestrator/loadgen/completion_stream.h"
#include "orchestrator/loadgen/load_spec.h"
#include "orchestrator/sample/sample.h"

namespace sweep::loadgen {

class RequestRecord {
 public:
  RequestRecord(const LoadSpec& spec, sample::Phase phase, int64_t sequence, uint64_t prompt_seed);
  // A request that someone else sent.
  explicit RequestRecord(const AskedLengths& asked);
  RequestRecord(const RequestRecord&) = delete;
  RequestRecord& operator=(const RequestRecord&) = delete;

  void sent(int64_t monotonic_ns, int64_t unix_ns);
  // When it was due, if that was not when it was sent.
  void scheduled(int64_t monotonic_ns) { sample_.scheduled_ns = monotonic_ns; }
  void begin(const http::ReplyHead& head);
  void receive(std::string_view bytes, int64_t received_ns);
  void finish(const http::StreamEnd& end);

  // Complete after finish(). The problems include warnings, which do not make the sample a failed one.
  const sample::Sample& sample() const { return sample_; }
  const std::vector<diag::Diagnostic>& problems() const { return problems_; }
  // Events that brought tokens. Those that were read together are one chunk of the sample.
  int64_t token_events() const { return stream_.token_events(); }

 private:
  void judge(const http::StreamEnd& end);
  void judge_refusal(const http::StreamEnd& end);
  void add(diag::Diagnostic problem);

  std::string secret_;  // must not get into the record, whatever the server repeats
  AskedLengths asked_;
  sample::Sample sample_;
  CompletionStream stream_;  // fills sample_
  bool is_stream_ = false;
  std::string refusal_;  // the beginning of a body that is no stream
  std::vector<diag::Diagnostic> problems_;
};

}  // namespace sweep::loadgen
