#include "orchestrator/loadgen/completion_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "orchestrator/diag/rules/load.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/loadgen/completion_event.h"
#include "orchestrator/loadgen/sse_parser.h"

namespace sweep::loadgen {

class CompletionStream::State {
 public:
  explicit State(sample::Sample& sample) : sample_(sample) {}

  void receive(std::string_view bytes, int64_t received_ns);
  void finish(bool complete);
  int64_t token_events() const { return token_events_; }
  const std::vector<diag::Diagnostic>& problems() const { return problems_; }

 private:
  void take_event(const SseEvent& event);
  void take_choice();
  void take_usage();
  void take_token_ids();
  void add_chunk(std::optional<int64_t> tokens);
  void add_problem(diag::RuleId rule, std::string message, std::string help = {}) {
    problems_.push_back(diag::make(rule, std::move(message), std::move(help)));
  }

  sample::Sample& sample_;
  SseParser parser_;
  CompletionEvent event_;  // the one being taken
  std::vector<diag::Diagnostic> problems_;
  int64_t now_ns_ = 0;  // of the piece being parsed
  bool done_ = false;
  bool broken_ = false;
  int64_t events_ = 0;
  int64_t token_events_ = 0;
  int64_t counted_tokens_ = 0;   // completion tokens of the latest usage
  int64_t id_tokens_ = 0;        // token ids seen
  bool ids_missing_ = false;     // text came without ids
  bool count_missing_ = false;   // text came without usage since the latest usage
  bool ever_uncounted_ = false;  // some chunk's tokens are not known
  digest::Sha256 id_hash_;
  digest::Sha256 text_hash_;
  bool any_text_ = false;
};

void CompletionStream::State::receive(std::string_view bytes, int64_t received_ns) {
  if (!sample_.first_byte_ns) sample_.first_byte_ns = received_ns;
  sample_.bytes += static_cast<int64_t>(bytes.size());
  now_ns_ = received_ns;
  if (broken_) return;
  if (!parser_.feed(bytes, [this](const SseEvent& event) { take_event(event); })) {
    broken_ = true;
    add_problem(diag::rule::load_malformed_event, "an event is larger than any completion can be");
  }
}

void CompletionStream::State::take_event(const SseEvent& event) {
  ++events_;
  if (done_) return;
  if (event.data == "[DONE]") {
    done_ = true;
    return;
  }
  const bool is_object = read_event(event.data, event_);
  if ((is_object && event_.has_error) || event.name == "error") {
    const std::string message = error_message(event.data);
    add_problem(diag::rule::load_server_error,
                fmt::format("the server reported an error: {}", message.empty() ? shortened(event.data) : message),
                "look into the engine's log");
    return;
  }
  if (!is_object) {
    if (!std::exchange(broken_, true))
      add_problem(diag::rule::load_malformed_event,
                  fmt::format("event {} is not JSON: {}", events_, shortened(event.data)));
    return;
  }
  const auto& counted = event_.completion_tokens;
  if (counted && *counted < counted_tokens_ && !std::exchange(broken_, true))
    add_problem(diag::rule::load_malformed_event,
                fmt::format("the count of completion tokens fell from {} to {}", counted_tokens_, *counted));
  if (event_.has_choice) take_choice();
  if (event_.has_usage) take_usage();
}

void CompletionStream::State::take_choice() {
  if (sample_.finish_reason.empty()) sample_.finish_reason = event_.finish_reason;
  if (!event_.text.empty()) {
    any_text_ = true;
    text_hash_.update(event_.text);
  }
  const auto& counted = event_.completion_tokens;
  const int64_t risen = counted ? *counted - counted_tokens_ : 0;
  if (event_.ids_listed > 0) {
    take_token_ids();
    add_chunk(event_.ids_listed);
    return;
  }
  if (event_.text.empty() && risen <= 0) return;
  ids_missing_ = true;
  if (!counted) {
    count_missing_ = true;
    add_chunk(std::nullopt);
  } else {
    // After uncounted text, the difference also holds the tokens of that text.
    add_chunk(count_missing_ ? std::nullopt : std::optional<int64_t>(std::max<int64_t>(risen, 0)));
  }
}

void CompletionStream::State::take_token_ids() {
  for (const int64_t id : event_.token_ids) {
    const fmt::format_int digits(id);
    id_hash_.update(std::string_view(digits.data(), digits.size()));
    id_hash_.update("\n");
    ++id_tokens_;
  }
  const bool all = static_cast<int64_t>(event_.token_ids.size()) == event_.ids_listed;
  if (!all && !std::exchange(broken_, true))
    add_problem(diag::rule::load_malformed_event, "\"token_ids\" holds something else than integers");
}

void CompletionStream::State::take_usage() {
  if (event_.prompt_tokens) sample_.prompt_tokens = event_.prompt_tokens;
  if (event_.cached_tokens) sample_.cached_tokens = event_.cached_tokens;
  if (!event_.completion_tokens) return;
  sample_.completion_tokens = event_.completion_tokens;
  counted_tokens_ = *event_.completion_tokens;
  count_missing_ = false;
}

void CompletionStream::State::add_chunk(std::optional<int64_t> tokens) {
  ++token_events_;
  if (!tokens) ever_uncounted_ = true;
  // Events that were read together are one chunk: their order in time is not observable.
  if (!sample_.chunks.empty() && sample_.chunks.back().ns == now_ns_) {
    auto& last = sample_.chunks.back().tokens;
    last = last && tokens ? std::optional<int64_t>(*last + *tokens) : std::nullopt;
  } else {
    sample_.chunks.push_back({.ns = now_ns_, .tokens = tokens});
  }
  if (!sample_.first_token_ns) sample_.first_token_ns = now_ns_;
  sample_.last_token_ns = now_ns_;
}

void CompletionStream::State::finish(bool complete) {
  if (!broken_) parser_.finish([this](const SseEvent& event) { take_event(event); });
  if (id_tokens_ > 0 && !ids_missing_) {
    sample_.received_tokens = id_tokens_;
    sample_.output_kind = sample::OutputKind::kTokenIds;
    sample_.output_sha256 = digest::hex(id_hash_.finish());
  } else {
    if (!sample_.chunks.empty() && !ever_uncounted_) {
      sample_.received_tokens = 0;
      for (const sample::Chunk& chunk : sample_.chunks) *sample_.received_tokens += *chunk.tokens;
    }
    if (any_text_) {
      sample_.output_kind = sample::OutputKind::kText;
      sample_.output_sha256 = digest::hex(text_hash_.finish());
    }
  }
  if (!complete || !problems_.empty()) return;
  if (events_ == 0) {
    add_problem(diag::rule::load_not_a_stream, "the reply holds no server-sent event");
  } else if (!done_) {
    if (!sample_.finish_reason.empty() && sample_.completion_tokens)
      add_problem(diag::rule::load_no_done, "the stream ended without [DONE]");
    else
      add_problem(diag::rule::load_stream_cut,
                  fmt::format("the stream ended without finish reason and usage, after {} events", events_),
                  "look into the engine's log");
  }
}

CompletionStream::CompletionStream(sample::Sample& sample) : state_(std::make_unique<State>(sample)) {}
CompletionStream::CompletionStream(CompletionStream&&) noexcept = default;
CompletionStream& CompletionStream::operator=(CompletionStream&&) noexcept = default;
CompletionStream::~CompletionStream() = default;

void CompletionStream::receive(std::string_view bytes, int64_t received_ns) {
  state_->receive(bytes, received_ns);
}

void CompletionStream::finish(bool complete) {
  state_->finish(complete);
}

int64_t CompletionStream::token_events() const {
  return state_->token_events();
}

const std::vector<diag::Diagnostic>& CompletionStream::problems() const {
  return state_->problems();
}

}  // namespace sweep::loadgen
