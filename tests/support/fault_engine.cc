#include "tests/support/fault_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/support/completion_text.h"

namespace sweep::test {

namespace {

using nlohmann::json;

constexpr auto kFaultNames = std::to_array<std::string_view>(
    {"ok",          "short",       "long",   "prompt-short", "die-midway",    "reset",
     "early-close", "hang",        "stall",  "http-500",     "http-429",      "error-event",
     "error-body",  "html",        "empty",  "no-done",      "no-usage",      "final-usage-only",
     "miscount",    "stop-reason", "cached", "drip",         "acceptance-off"});
constexpr int64_t kDyingCompletion = 3;
constexpr double kOffAcceptance = 4.2;

// Sends a body as its options say: whole events, or byte by byte.
void send_bytes(Reply& reply, std::string_view bytes, bool drip) {
  if (!drip) return reply.piece(bytes);
  for (const char c : bytes) reply.piece({&c, 1});
}

struct Wanted {
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
};

std::optional<Wanted> wanted_by(const HttpRequest& request) {
  const json body = json::parse(request.body, nullptr, false);
  if (!body.is_object() || !body.contains("prompt") || !body["prompt"].is_array() || !body.contains("max_tokens") ||
      !body["max_tokens"].is_number_unsigned())
    return std::nullopt;
  return Wanted{.prompt_tokens = static_cast<int64_t>(body["prompt"].size()),
                .output_tokens = body["max_tokens"].get<int64_t>()};
}

}  // namespace

std::span<const std::string_view> fault_names() {
  return kFaultNames;
}

std::optional<Fault> parse_fault(std::string_view name) {
  const auto found = std::find(kFaultNames.begin(), kFaultNames.end(), name);
  if (found == kFaultNames.end()) return std::nullopt;
  return static_cast<Fault>(found - kFaultNames.begin());
}

FaultEngine::FaultEngine(FaultEngineOptions options)
    : options_(std::move(options)),
      server_([this](const HttpRequest& request, Reply& reply) { answer(request, reply); }) {}

void FaultEngine::answer(const HttpRequest& request, Reply& reply) {
  if (dead_) return reply.reset();
  if (request.target == "/health") return reply.whole(200, "text/plain", "");
  if (request.target == "/v1/models")
    return reply.whole(200, "application/json",
                       json{{"object", "list"}, {"data", {{{"id", options_.model}, {"object", "model"}}}}}.dump());
  if (request.target == "/metrics") return reply.whole(200, "text/plain; version=0.0.4", metrics());
  if (request.target == "/v1/completions" && request.method == "POST") return complete(request, reply);
  reply.whole(404, "application/json", R"({"error":{"message":"no such path"}})");
}

std::string FaultEngine::metrics() const {
  return fmt::format(
      "# HELP embedded:spec_decode_num_drafts_total Verification steps.\n"
      "# TYPE embedded:spec_decode_num_drafts_total counter\n"
      "embedded:spec_decode_num_drafts_total{{model_name=\"{0}\"}} {1}\n"
      "# HELP embedded:spec_decode_num_draft_tokens_total Drafted tokens.\n"
      "# TYPE embedded:spec_decode_num_draft_tokens_total counter\n"
      "embedded:spec_decode_num_draft_tokens_total{{model_name=\"{0}\"}} {2}\n"
      "# HELP embedded:spec_decode_num_accepted_tokens_total Accepted drafts.\n"
      "# TYPE embedded:spec_decode_num_accepted_tokens_total counter\n"
      "embedded:spec_decode_num_accepted_tokens_total{{model_name=\"{0}\"}} {3}\n",
      options_.model, drafts_.load(), drafts_.load() * options_.num_draft_tokens, accepted_.load());
}

// The faults that do not even begin a proper stream. True if the request has been dealt with.
bool FaultEngine::refuse(Reply& reply, int64_t number) {
  switch (options_.fault) {
    case Fault::kHang:
      reply.hang();
      return true;
    case Fault::kHttp500:
      reply.whole(500, "application/json", R"({"error":{"message":"engine core died","type":"InternalServerError"}})");
      return true;
    case Fault::kHttp429:
      reply.whole(429, "application/json", R"({"error":"too many requests"})", "Retry-After: 1\r\n");
      return true;
    case Fault::kErrorBody:
      reply.whole(200, "application/json", R"({"error":{"message":"KV cache exhausted"}})");
      return true;
    case Fault::kHtml:
      reply.whole(200, "text/html", "<html><body>It works!</body></html>");
      return true;
    case Fault::kDieMidway:
      if (number > kDyingCompletion) reply.reset();
      return number > kDyingCompletion;
    default:
      return false;
  }
}

// How a stream that does not come to its end ends.
void FaultEngine::break_off(Reply& reply) {
  switch (options_.fault) {
    case Fault::kReset:
      return reply.reset();
    case Fault::kStall:
      return reply.hang();
    case Fault::kErrorEvent:
      reply.piece(event({{"error", {{"message", "CUDA error: an illegal memory access"}, {"code", 500}}}}));
      reply.piece("data: [DONE]\n\n");
      return reply.end();
    case Fault::kDieMidway:
      dead_ = true;
      if (options_.die) options_.die();
      return reply.reset();
    default:
      return;  // closes in the middle of a chunked reply
  }
}

void FaultEngine::complete(const HttpRequest& request, Reply& reply) {
  const int64_t number = ++completions_;
  if (refuse(reply, number)) return;
  const auto wanted = wanted_by(request);
  if (!wanted) return reply.whole(400, "application/json", R"({"error":{"message":"bad request"}})");
  const Fault fault = options_.fault;
  int64_t total = wanted->output_tokens;
  if (fault == Fault::kShort) --total;
  if (fault == Fault::kLong) ++total;
  if (fault == Fault::kEmpty) total = 0;
  const int64_t prompt_tokens = wanted->prompt_tokens - (fault == Fault::kPromptShort ? 1 : 0);
  const bool breaks = fault == Fault::kReset || fault == Fault::kEarlyClose || fault == Fault::kStall ||
                      fault == Fault::kErrorEvent || (fault == Fault::kDieMidway && number == kDyingCompletion);
  const bool continuous = fault != Fault::kFinalUsageOnly && fault != Fault::kNoUsage;
  const double length = fault == Fault::kAcceptanceOff ? kOffAcceptance : options_.acceptance_length;
  const auto usage = [&](int64_t completed) {
    return json{{"prompt_tokens", prompt_tokens},
                {"completion_tokens", completed},
                {"total_tokens", prompt_tokens + completed},
                {"prompt_tokens_details", {{"cached_tokens", fault == Fault::kCached ? prompt_tokens / 2 : 0}}}};
  };

  reply.head(200, "text/event-stream");
  int64_t sent = 0;
  // The first token comes from the prefill; each later event is one verification step.
  for (int64_t step = 0; sent < total && !reply.peer_gone(); ++step) {
    int64_t committed = 1;
    if (step > 0) {
      committed = static_cast<int64_t>(std::floor(static_cast<double>(step) * length + 1e-9)) -
                  static_cast<int64_t>(std::floor(static_cast<double>(step - 1) * length + 1e-9));
      drafts_ += 1;
      accepted_ += committed - 1;
    }
    if (breaks && sent >= total / 2) break;
    if (options_.step.count() > 0 && !reply.wait(options_.step)) return;
    committed = std::min(committed, total - sent);
    json choice = {{"index", 0}, {"text", ""}, {"finish_reason", nullptr}};
    json ids = json::array();
    std::string text;
    for (int64_t i = 0; i < committed; ++i) {
      ids.push_back(kFirstTokenId + sent + i);
      text += " \xC3\xA9";  // a character of two bytes
    }
    sent += committed;
    choice["text"] = text;
    if (sent == total)
      choice["finish_reason"] = fault == Fault::kStopReason || fault == Fault::kShort ? "stop" : "length";
    json body = {{"id", fmt::format("cmpl-{}", number)}, {"object", "text_completion"}, {"model", options_.model}};
    if (continuous) {
      choice["token_ids"] = std::move(ids);
      body["usage"] = usage(sent);
    }
    body["choices"] = json::array({std::move(choice)});
    send_bytes(reply, event(body), fault == Fault::kDrip);
  }
  if (breaks) return break_off(reply);
  if (fault != Fault::kNoUsage)
    reply.piece(event({{"id", fmt::format("cmpl-{}", number)},
                       {"choices", json::array()},
                       {"usage", usage(sent + (fault == Fault::kMiscount ? 1 : 0))}}));
  if (fault != Fault::kNoDone) reply.piece("data: [DONE]\n\n");
  reply.end();
}

}  // namespace sweep::test
