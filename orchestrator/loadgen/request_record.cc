#include "orchestrator/loadgen/request_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/http/request.h"
#include "orchestrator/http/secret.h"
#include "orchestrator/loadgen/completion_event.h"

namespace sweep::loadgen {

namespace {

constexpr size_t kMostRefusalBytes = 64 * 1024;
constexpr size_t kShownRefusalBytes = 200;

// A failed transfer in the words of this module. What has no word here keeps the transport's.
diag::Diagnostic in_load_terms(const diag::Diagnostic& error) {
  const auto as = [&](diag::RuleId rule) { return diag::make(rule, error.message, error.help); };
  constexpr std::array kTimeouts{
      diag::RuleId(diag::rule::http_connect_timeout), diag::RuleId(diag::rule::http_first_byte_timeout),
      diag::RuleId(diag::rule::http_idle_timeout), diag::RuleId(diag::rule::http_total_timeout)};
  if (std::find(kTimeouts.begin(), kTimeouts.end(), error.rule) != kTimeouts.end()) return as(diag::rule::load_timeout);
  if (error.rule == diag::rule::http_cut) return as(diag::rule::load_stream_cut);
  if (error.rule == diag::rule::http_cancelled) return as(diag::rule::load_cancelled);
  return error;
}

// The first line of a body for a message: printable, short.
std::string excerpt(std::string_view body) {
  std::string text;
  for (const char c : body.substr(0, kShownRefusalBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte >= 0x7f ? ' ' : c;
  }
  return text;
}

}  // namespace

RequestRecord::RequestRecord(const LoadSpec& spec, sample::Phase phase, int64_t sequence, uint64_t prompt_seed)
    : secret_(spec.access.bearer_token), asked_{.isl = spec.isl, .osl = spec.osl}, stream_(sample_) {
  sample_.job = spec.job;
  sample_.phase = phase;
  sample_.sequence = sequence;
  sample_.prompt_seed = prompt_seed;
}

RequestRecord::RequestRecord(const AskedLengths& asked) : asked_(asked), stream_(sample_) {}

void RequestRecord::sent(int64_t monotonic_ns, int64_t unix_ns) {
  sample_.scheduled_ns = monotonic_ns;
  sample_.sent_ns = monotonic_ns;
  sample_.sent_unix_ns = unix_ns;
}

void RequestRecord::begin(const http::ReplyHead& head) {
  const std::string_view type = head.header("content-type");
  is_stream_ =
      head.status == http::status::kOk && !type.starts_with("application/json") && !type.starts_with("text/html");
}

void RequestRecord::receive(std::string_view bytes, int64_t received_ns) {
  if (is_stream_) return stream_.receive(bytes, received_ns);
  if (!sample_.first_byte_ns) sample_.first_byte_ns = received_ns;
  sample_.bytes += static_cast<int64_t>(bytes.size());
  refusal_ += bytes.substr(0, kMostRefusalBytes - std::min(refusal_.size(), kMostRefusalBytes));
}

void RequestRecord::finish(const http::StreamEnd& end) {
  sample_.end_ns = end.ended_ns;
  sample_.status = end.head.status;
  if (is_stream_) stream_.finish(!end.error.has_value());
  sample_.finish_reason = http::without_secret(std::move(sample_.finish_reason), secret_);
  judge(end);
}

void RequestRecord::judge(const http::StreamEnd& end) {
  if (is_stream_)
    for (const diag::Diagnostic& problem : stream_.problems()) add(problem);
  if (end.error) {
    diag::Diagnostic problem = in_load_terms(*end.error);
    if (const int64_t tokens = sample_.received_tokens.value_or(sample_.completion_tokens.value_or(0)); tokens > 0)
      problem.message += asked_.osl ? fmt::format("; {} of {} tokens were received", tokens, *asked_.osl)
                                    : fmt::format("; {} tokens were received", tokens);
    add(std::move(problem));
  } else if (!is_stream_) {
    judge_refusal(end);
  } else if (sample_.ok()) {
    for (diag::Diagnostic& problem : check_lengths(sample_, asked_)) add(std::move(problem));
  }
}

void RequestRecord::judge_refusal(const http::StreamEnd& end) {
  refusal_ = http::without_secret(std::move(refusal_), secret_);
  const std::string message = error_message(refusal_);
  if (end.head.status != http::status::kOk)
    add(diag::make(diag::rule::load_http_status,
                   fmt::format("HTTP status {}: {}", end.head.status, message.empty() ? excerpt(refusal_) : message)));
  else if (!message.empty())
    add(diag::make(diag::rule::load_server_error, fmt::format("the server reported an error: {}", message),
                   "look into the engine's log"));
  else
    add(diag::make(diag::rule::load_not_a_stream,
                   fmt::format("the reply has content type \"{}\" and begins \"{}\", expected server-sent events",
                               end.head.header("content-type"), excerpt(refusal_))));
}

void RequestRecord::add(diag::Diagnostic problem) {
  problem.message = http::without_secret(std::move(problem.message), secret_);
  if (problem.severity == diag::Severity::kError)
    sample_.problems.push_back({std::string(diag::rule_info(problem.rule).slug), problem.message});
  problems_.push_back(std::move(problem));
}

}  // namespace sweep::loadgen
