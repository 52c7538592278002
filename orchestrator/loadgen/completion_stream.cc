#include "orchestrator/loadgen/completion_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "orchestrator/base/json_fields.h"
#include "orchestrator/base/json_nesting.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/loadgen/sse_parser.h"

namespace sweep::loadgen {

namespace {

using base::count_in;
using base::member;
using nlohmann::json;

constexpr size_t kLongestMessage = 300;

std::string_view text_in(const json& object, const char* name) {
  const json* value = member(object, name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_ref<const std::string&>())
                                                : std::string_view();
}

// The number in an escape like \ud83d at the beginning of the text.
std::optional<unsigned> escaped_unit(std::string_view text) {
  constexpr size_t kEscape = 6;
  unsigned unit = 0;
  if (text.size() < kEscape || !text.starts_with("\\u")) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + kEscape, unit, 16);
  if (error != std::errc() || end != text.data() + kEscape) return std::nullopt;
  return unit;
}

// Servers that count text in UTF-16 split a character over two events, and escape each half. The grammar of JSON allows
// that, readers do not: halves become U+FFFD.
std::string without_halves(std::string_view text) {
  const auto is_first = [](const std::optional<unsigned>& unit) { return unit && (*unit & 0xFC00U) == 0xD800U; };
  const auto is_second = [](const std::optional<unsigned>& unit) { return unit && (*unit & 0xFC00U) == 0xDC00U; };
  constexpr size_t kEscape = 6;
  std::string whole;
  while (!text.empty()) {
    const auto unit = escaped_unit(text);
    size_t length = 1;
    if (is_first(unit) && is_second(escaped_unit(text.substr(kEscape))))
      length = 2 * kEscape;
    else if (unit)
      length = kEscape;
    else if (text.front() == '\\')
      length = 2;  // an escaped backslash begins no escape
    whole += length == kEscape && (is_first(unit) || is_second(unit)) ? "\\ufffd" : text.substr(0, length);
    text.remove_prefix(std::min(length, text.size()));
  }
  return whole;
}

// Most events have fewer brackets than may nest: counting them is quicker than following them.
bool is_too_deep(std::string_view text) {
  const auto brackets = std::count_if(text.begin(), text.end(), [](char c) { return c == '{' || c == '['; });
  return static_cast<size_t>(brackets) > base::kDeepestJson && base::json_nesting(text) > base::kDeepestJson;
}

// Discarded if it is no JSON, or nests deeper than any reply: writing such a tree as text would exhaust the stack.
json parse_shallow(std::string_view text) {
  if (is_too_deep(text)) return json(json::value_t::discarded);
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded() &&
      (text.find("\\ud") != std::string_view::npos || text.find("\\uD") != std::string_view::npos))
    parsed = json::parse(without_halves(text), nullptr, false);
  return parsed;
}

std::string shortened(std::string_view text) {
  if (text.size() <= kLongestMessage) return std::string(text);
  size_t cut = kLongestMessage;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return std::string(text.substr(0, cut)) + "...";
}

// The token-bearing text of a choice, in whichever channel it comes.
std::string text_of(const json& choice) {
  std::string text(text_in(choice, "text"));
  const json* delta = member(choice, "delta");
  if (delta == nullptr) return text;
  for (const char* channel : {"content", "reasoning_content", "reasoning"}) text += text_in(*delta, channel);
  if (const json* calls = member(*delta, "tool_calls"); calls != nullptr && !calls->empty())
    text += calls->dump(-1, ' ', false, json::error_handler_t::replace);
  return text;
}

}  // namespace

std::string error_message(std::string_view text) {
  const json body = parse_shallow(text);
  if (!body.is_object()) return {};
  const json* error = member(body, "error");
  if (error != nullptr && error->is_string()) return shortened(error->get_ref<const std::string&>());
  const json& holder = error != nullptr ? *error : body;
  for (const char* name : {"message", "detail"})
    if (const std::string_view message = text_in(holder, name); !message.empty()) return shortened(message);
  return error != nullptr ? shortened(error->dump(-1, ' ', false, json::error_handler_t::replace)) : std::string();
}

class CompletionStream::State {
 public:
  explicit State(sample::Sample& sample) : sample_(sample) {}

  void receive(std::string_view bytes, int64_t received_ns);
  void finish(bool complete);
  int64_t token_events() const { return token_events_; }
  const std::vector<diag::Diagnostic>& problems() const { return problems_; }

 private:
  void take_event(const SseEvent& event);
  void take_choice(const json& choice, const std::optional<int64_t>& counted);
  void take_usage(const json& usage);
  void take_token_ids(const json& ids);
  void add_chunk(std::optional<int64_t> tokens);
  void add_problem(diag::RuleId rule, std::string message, std::string help = {}) {
    problems_.push_back(diag::make(rule, std::move(message), std::move(help)));
  }

  sample::Sample& sample_;
  SseParser parser_;
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
  const json body = parse_shallow(event.data);
  if (member(body, "error") != nullptr || event.name == "error") {
    const std::string message = error_message(event.data);
    add_problem(diag::rule::load_server_error,
                fmt::format("the server reported an error: {}", message.empty() ? shortened(event.data) : message),
                "look into the engine's log");
    return;
  }
  if (!body.is_object()) {
    if (!std::exchange(broken_, true))
      add_problem(diag::rule::load_malformed_event,
                  fmt::format("event {} is not JSON: {}", events_, shortened(event.data)));
    return;
  }
  const json* usage = member(body, "usage");
  const std::optional<int64_t> counted = usage != nullptr ? count_in(*usage, "completion_tokens") : std::nullopt;
  if (counted && *counted < counted_tokens_ && !std::exchange(broken_, true))
    add_problem(diag::rule::load_malformed_event,
                fmt::format("the count of completion tokens fell from {} to {}", counted_tokens_, *counted));
  const json* choices = member(body, "choices");
  if (choices != nullptr && choices->is_array() && !choices->empty()) take_choice(choices->front(), counted);
  if (usage != nullptr) take_usage(*usage);
}

void CompletionStream::State::take_choice(const json& choice, const std::optional<int64_t>& counted) {
  if (sample_.finish_reason.empty()) sample_.finish_reason = text_in(choice, "finish_reason");
  const std::string text = text_of(choice);
  if (!text.empty()) {
    any_text_ = true;
    text_hash_.update(text);
  }
  const json* ids = member(choice, "token_ids");
  const int64_t risen = counted ? *counted - counted_tokens_ : 0;
  if (ids != nullptr && ids->is_array() && !ids->empty()) {
    take_token_ids(*ids);
    add_chunk(static_cast<int64_t>(ids->size()));
    return;
  }
  if (text.empty() && risen <= 0) return;
  ids_missing_ = true;
  if (!counted) {
    count_missing_ = true;
    add_chunk(std::nullopt);
  } else {
    // After uncounted text, the difference also holds the tokens of that text.
    add_chunk(count_missing_ ? std::nullopt : std::optional<int64_t>(std::max<int64_t>(risen, 0)));
  }
}

void CompletionStream::State::take_token_ids(const json& ids) {
  for (const json& id : ids) {
    if (!id.is_number_integer()) {
      if (!std::exchange(broken_, true))
        add_problem(diag::rule::load_malformed_event, "\"token_ids\" holds something else than integers");
      return;
    }
    id_hash_.update(fmt::format("{}\n", id.get<int64_t>()));
    ++id_tokens_;
  }
}

void CompletionStream::State::take_usage(const json& usage) {
  if (const auto tokens = count_in(usage, "prompt_tokens")) sample_.prompt_tokens = tokens;
  if (const auto tokens = count_in(usage, "completion_tokens")) {
    sample_.completion_tokens = tokens;
    counted_tokens_ = *tokens;
    count_missing_ = false;
  }
  if (const json* details = member(usage, "prompt_tokens_details"))
    if (const auto tokens = count_in(*details, "cached_tokens")) sample_.cached_tokens = tokens;
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
