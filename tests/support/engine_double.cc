#include "tests/support/engine_double.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/support/completion_text.h"
#include "tests/support/engine_double_log.h"

namespace sweep::test {

using namespace double_log;

namespace {

using nlohmann::json;

constexpr int64_t kTemplateTokens = 6;
constexpr double kAsked = 5.7;
constexpr double kOff = 4.2;

constexpr auto kMishapNames = std::to_array<std::string_view>({"none",
                                                               "die-before-ready",
                                                               "memory-before-ready",
                                                               "memory-and-hang",
                                                               "port-in-log",
                                                               "device-error",
                                                               "hang-before-ready",
                                                               "wrong-model",
                                                               "probe-error",
                                                               "die-mid-run",
                                                               "killed-mid-run",
                                                               "memory-mid-run",
                                                               "hang-mid-run",
                                                               "hang-in-warm-up",
                                                               "hang-at-end",
                                                               "die-after",
                                                               "error-logged",
                                                               "short",
                                                               "long",
                                                               "prompt-short",
                                                               "acceptance-off",
                                                               "dead-draft",
                                                               "cached",
                                                               "compile-in-window",
                                                               "compile-in-warm-up",
                                                               "restarted",
                                                               "no-counters",
                                                               "other-client",
                                                               "ignores-term"});

[[noreturn]] void end(int code) {
  ::_exit(code);
}

}  // namespace

std::string_view mishap_name(Mishap mishap) {
  return kMishapNames[static_cast<size_t>(mishap)];
}

std::optional<Mishap> parse_mishap(std::string_view name) {
  const auto found = std::find(kMishapNames.begin(), kMishapNames.end(), name);
  if (found == kMishapNames.end()) return std::nullopt;
  return static_cast<Mishap>(found - kMishapNames.begin());
}

void EngineDouble::announce(const EngineDoubleOptions& options) {
  log_start(options);
  switch (options.mishap) {
    case Mishap::kDieBeforeReady:
      log("Traceback (most recent call last):");
      log("  File \"launch.py\", line 12, in main");
      log("ValueError: the checkpoint has no draft head");
      end(1);
    case Mishap::kMemoryBeforeReady:
      log_out_of_memory();
      end(1);
    case Mishap::kDeviceError:
      log("RuntimeError: CUDA error: an illegal memory access was encountered");
      end(1);
    case Mishap::kPortInLog:
      log(fmt::format(
          "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', {}): address already "
          "in use",
          options.port));
      end(1);
    case Mishap::kMemoryAndHang:
      log_out_of_memory();
      while (true) ::pause();
    case Mishap::kHangBeforeReady:
      while (true) ::pause();
    default:
      break;
  }
  if (options.mishap == Mishap::kCompileInWarmUp) log_compilation();
  log_ready(options);
}

EngineDouble::EngineDouble(EngineDoubleOptions options)
    : options_(std::move(options)),
      window_begin_ns_(unix_ns()),
      server_([this](const HttpRequest& request, Reply& reply) { answer(request, reply); }, plain_wires(),
              options_.port) {}

double EngineDouble::length() const {
  if (options_.mishap == Mishap::kAcceptanceOff) return kOff;
  return options_.mishap == Mishap::kDeadDraft ? 1.0 : kAsked;
}

bool EngineDouble::is_measured(const Request& request) const {
  return request.number >= options_.first_measured;
}

bool EngineDouble::answer_about_itself(const std::string& target, Reply& reply) {
  const auto document = [&](const json& body) { reply.whole(200, "application/json", body.dump()); };
  if (target == "/health") {
    reply.whole(200, "text/plain", "");
  } else if (target == "/v1/models") {
    const bool wrong = options_.mishap == Mishap::kWrongModel;
    document({{"object", "list"}, {"data", {{{"id", wrong ? "other/model" : options_.model}, {"object", "model"}}}}});
  } else if (target == "/version" && (options_.dialect == Dialect::kVllm || options_.dialect == Dialect::kTrtllm)) {
    document({{"version", options_.dialect == Dialect::kVllm ? "0.30.0" : "1.2.0"}});
  } else if (target == "/server_info" && options_.dialect == Dialect::kEmbedded) {
    document({{"version", "0.1.0"}, {"kernels", {{"sha256", options_.kernels_sha256}}}, {"kv_layout", "v4_584"}});
  } else if (options_.mishap == Mishap::kNoCounters) {
    return false;
  } else if (target == "/server_info" && options_.dialect == Dialect::kSglang) {
    reply.whole(200, "application/json", statistics());
  } else if (target == "/debug/mtp_stats" && options_.dialect == Dialect::kAtom) {
    reply.whole(200, "application/json", statistics());
  } else if (target == "/metrics") {
    const bool is_json = options_.dialect == Dialect::kTrtllm;
    reply.whole(200, is_json ? "application/json" : "text/plain; version=0.0.4", is_json ? statistics() : counters());
  } else {
    return false;
  }
  return true;
}

void EngineDouble::answer(const HttpRequest& request, Reply& reply) {
  if (hangs_) return reply.hang();
  if (answer_about_itself(request.target, reply)) return;
  const json body = json::parse(request.body, nullptr, false);
  const bool is_chat = request.target == "/v1/chat/completions";
  if (request.method != "POST" || (!is_chat && request.target != "/v1/completions") || !body.is_object())
    return reply.whole(404, "application/json", R"({"error":{"message":"no such path"}})");
  const json prompt = is_chat ? json() : body.value("prompt", json());
  if (!is_chat && (!prompt.is_array() || options_.dialect == Dialect::kAtom))
    return reply.whole(422, "application/json", R"({"detail":"prompt: Input should be a valid string"})");
  complete({.number = 0,
            .prompt_tokens = is_chat ? words_in(body["messages"][0].value("content", "")) + kTemplateTokens
                                     : static_cast<int64_t>(prompt.size()),
            .output_tokens = body.value("max_tokens", int64_t{0}),
            .is_chat = is_chat},
           reply);
}

void EngineDouble::complete(Request request, Reply& reply) {
  if (options_.mishap == Mishap::kProbeError)
    return reply.whole(500, "application/json", R"({"error":{"message":"engine core is dead"}})");
  // A single token is the question what a chat template adds.
  if (request.output_tokens > 1) {
    const std::lock_guard lock(mutex_);
    request.number = ++completions_;
  }
  if (options_.mishap == Mishap::kShort && request.number > 0) --request.output_tokens;
  if (options_.mishap == Mishap::kLong && request.number > 0) ++request.output_tokens;
  log_around(request);
  stream(request, reply);
}

// What is logged when a request is taken.
void EngineDouble::log_around(const Request& request) {
  const std::lock_guard lock(mutex_);
  const bool cached = options_.mishap == Mishap::kCached;
  totals_.prompt_tokens += request.prompt_tokens;
  totals_.cached_tokens += cached ? request.prompt_tokens / 2 : 0;
  ++totals_.requests;
  if (options_.dialect == Dialect::kSglang)
    log_prefill(cached ? request.prompt_tokens / 2 : request.prompt_tokens, cached ? request.prompt_tokens / 2 : 0);
  if (request.number == 1 && options_.mishap == Mishap::kCompileInWarmUp) log_compilation();
  if (request.number != options_.first_measured + 1) return;  // the second measured one: surely inside the window
  if (options_.mishap == Mishap::kCompileInWindow) log_compilation();
  if (options_.mishap == Mishap::kErrorLogged) log_out_of_memory();
  if (options_.mishap == Mishap::kRestarted) totals_ = Totals();
  if (options_.mishap == Mishap::kOtherClient) {
    for (int64_t step = 0; step < 100; ++step) ++totals_.by_accepted[step % 10 < 7 ? 5 : 4];
    totals_.steps += 100;
    totals_.accepted += 470;
    totals_.generated_tokens += 570;
  }
}

// How many tokens the step commits, counted and logged.
int64_t EngineDouble::commit(int64_t step) {
  const auto upto = [&](int64_t n) {
    return static_cast<int64_t>(std::floor(static_cast<double>(n) * length() + 1e-9));
  };
  const std::lock_guard lock(mutex_);
  const int64_t committed = upto(step) - upto(step - 1);
  ++totals_.steps;
  totals_.accepted += committed - 1;
  ++totals_.by_accepted[static_cast<size_t>(committed - 1)];
  window_accepted_ += committed - 1;
  if (++window_steps_ == options_.steps_per_line) {
    log_window(options_.dialect, {.steps = window_steps_, .accepted = window_accepted_, .begin_ns = window_begin_ns_});
    window_steps_ = window_accepted_ = 0;
    window_begin_ns_ = unix_ns();
  }
  return committed;
}

// True if the request was dealt with by failing, in its middle.
bool EngineDouble::fail_in(const Request& request, Reply& reply) {
  constexpr int64_t kBehindProbe = 2;
  if ((options_.mishap == Mishap::kHangInWarmUp && request.number == kBehindProbe) ||
      (options_.mishap == Mishap::kHangAtEnd && request.number == options_.last_measured)) {
    hangs_ = true;
    reply.hang();
    return true;
  }
  if (request.number != options_.first_measured + 1) return false;
  switch (options_.mishap) {
    case Mishap::kDieMidRun:
      end(1);
    case Mishap::kKilledMidRun:
      ::kill(::getpid(), SIGKILL);
      return true;
    case Mishap::kMemoryMidRun:
      log_out_of_memory();
      end(1);
    case Mishap::kHangMidRun:
      reply.hang();
      return true;
    default:
      return false;
  }
}

void EngineDouble::stream(const Request& request, Reply& reply) {
  const int64_t prompt_tokens =
      request.prompt_tokens - (options_.mishap == Mishap::kPromptShort && request.number > 0 ? 1 : 0);
  const int64_t cached = options_.mishap == Mishap::kCached ? prompt_tokens / 2 : 0;
  const auto usage = [&](int64_t completed) {
    return json{{"prompt_tokens", prompt_tokens},
                {"completion_tokens", completed},
                {"prompt_tokens_details", {{"cached_tokens", cached}}}};
  };
  const bool continuous = options_.dialect != Dialect::kAtom;
  reply.head(200, "text/event-stream");
  int64_t sent = 0;
  for (int64_t step = 0; sent < request.output_tokens && !reply.peer_gone(); ++step) {
    if (sent >= request.output_tokens / 2 && fail_in(request, reply)) return;
    if (options_.step.count() > 0 && !reply.wait(options_.step)) return;
    const int64_t committed = std::min(step == 0 ? 1 : commit(step), request.output_tokens - sent);
    std::string text;
    json ids = json::array();
    for (int64_t i = 0; i < committed; ++i) {
      text += " word";
      ids.push_back(kFirstTokenId + sent + i);
    }
    sent += committed;
    const json reason = sent == request.output_tokens ? json("length") : json(nullptr);
    json choice = {{"index", 0}, {"finish_reason", reason}};
    if (request.is_chat)
      choice["delta"] = {{"content", text}};
    else
      choice["text"] = text;
    json body = {{"id", "cmpl-1"}, {"model", options_.model}};
    if (continuous) {
      choice["token_ids"] = std::move(ids);
      body["usage"] = usage(sent);
    }
    body["choices"] = json::array({std::move(choice)});
    reply.piece(event(body));
  }
  {
    const std::lock_guard lock(mutex_);
    totals_.generated_tokens += sent;
  }
  reply.piece(event({{"id", "cmpl-1"}, {"choices", json::array()}, {"usage", usage(sent)}}));
  const bool dies = options_.mishap == Mishap::kDieAfter && request.number == options_.last_measured;
  if (dies) hangs_ = true;  // no question is answered between the reply and the end
  reply.piece("data: [DONE]\n\n");
  reply.end();
  if (dies) end(1);
}

std::string EngineDouble::counters() {
  const std::lock_guard lock(mutex_);
  const Totals& t = totals_;
  std::string page;
  const auto add = [&](std::string_view name, int64_t value, std::string_view labels = {}) {
    page += fmt::format("{}{{model_name=\"{}\"{}}} {}\n", name, options_.model, labels, value);
  };
  if (options_.dialect == Dialect::kSglang) {
    add("sglang:spec_verify_calls_total", t.steps);
    add("sglang:prompt_tokens_total", t.prompt_tokens);
    add("sglang:generation_tokens_total", t.generated_tokens);
    add("sglang:num_requests_total", t.requests);
    if (t.cached_tokens > 0) add("sglang:cached_tokens_total", t.cached_tokens);
    return page;
  }
  if (options_.dialect == Dialect::kAtom) {
    add("atom:generation_tokens_total", t.generated_tokens);
    add("atom:prompt_tokens_total", t.prompt_tokens);
    add("atom:prefix_cache_cached_tokens_total", t.cached_tokens);
    return page;
  }
  const std::string prefix = options_.dialect == Dialect::kVllm ? "vllm:" : "embedded:";
  const std::string_view engine = options_.dialect == Dialect::kVllm ? ",engine=\"0\"" : "";
  add(prefix + "spec_decode_num_drafts_total", t.steps, engine);
  add(prefix + "spec_decode_num_draft_tokens_total", t.steps * kDrafts, engine);
  add(prefix + "spec_decode_num_accepted_tokens_total", t.accepted, engine);
  int64_t reached = t.steps;
  for (int64_t position = 0; position < kDrafts; ++position) {
    reached -= t.by_accepted[static_cast<size_t>(position)];
    add(prefix + "spec_decode_num_accepted_tokens_per_pos_total", reached,
        fmt::format("{},position=\"{}\"", engine, position));
  }
  add(prefix + "prompt_tokens_total", t.prompt_tokens, engine);
  add(prefix + "generation_tokens_total", t.generated_tokens, engine);
  add(prefix + "prefix_cache_queries_total", t.prompt_tokens, engine);
  add(prefix + "prefix_cache_hits_total", t.cached_tokens, engine);
  return page;
}

std::string EngineDouble::statistics() {
  const std::lock_guard lock(mutex_);
  const Totals& t = totals_;
  if (options_.dialect == Dialect::kSglang) {
    const double mean = t.steps > 0 ? 1.0 + static_cast<double>(t.accepted) / static_cast<double>(t.steps) : 1.0;
    return json{{"version", "0.5.19"},
                {"kv_cache_dtype", "fp8_e4m3"},
                {"internal_states", {{{"avg_spec_accept_length", mean}}}}}
        .dump();
  }
  if (options_.dialect == Dialect::kAtom) {
    json distribution = json::object();
    for (size_t i = 0; i < t.by_accepted.size(); ++i)
      if (t.by_accepted[i] > 0) distribution[std::to_string(i)] = t.by_accepted[i];
    return json{{"enabled", true},
                {"total_draft_tokens", t.steps * kDrafts},
                {"total_accepted_tokens", t.accepted},
                {"distribution", distribution}}
        .dump();
  }
  // TensorRT-LLM: what happened since the last reading, here in one record.
  const int64_t steps = t.steps - drained_.steps;
  const int64_t accepted = t.accepted - drained_.accepted;
  json list = json::array();
  if (steps > 0)
    list.push_back({{"iter", t.steps},
                    {"kvCacheStats", {{"reusedBlocks", t.cached_tokens / 8}, {"tokensPerBlock", 8}}},
                    {"specDecodingStats",
                     {{"numDraftTokens", steps * kDrafts},
                      {"numAcceptedTokens", accepted},
                      {"numRequestsWithDraftTokens", steps}}}});
  drained_ = t;
  return list.dump();
}

}  // namespace sweep::test
