#include "orchestrator/engine/embedded/api.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

#include "orchestrator/base/clock.h"
#include "orchestrator/engine/embedded/completion_response.h"
#include "orchestrator/engine/embedded/cpu/simd.h"

namespace sweep::engine::embedded {

namespace {

using nlohmann::ordered_json;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kPrometheus = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

// Null where device time is not measured.
ordered_json steps_json(const StepTimes& times) {
  constexpr double kMicro = 1e6;
  const auto mean = [](double seconds, int64_t count) {
    return count > 0 ? ordered_json(seconds * kMicro / static_cast<double>(count)) : ordered_json();
  };
  ordered_json json;
  json["verify_steps"] = times.verify_steps;
  json["verify_step_us"] = mean(times.verify_s, times.verify_steps);
  json["draft_step_us"] = mean(times.draft_s, times.draft_steps);
  json["profiled_steps"] = times.profiled_steps;
  json["profiled_step_us"] = mean(times.profiled_s, times.profiled_steps);
  for (size_t i = 0; i < kStepParts; ++i) {
    json["parts_us"][std::string(kStepPartNames[i])] = mean(times.part_s[i], times.profiled_steps);
  }
  json["attention_share"] = times.profiled_steps > 0 ? ordered_json(times.attention_share()) : ordered_json();
  json["scope"] =
      "one forward pass over the drafts and the token before them, from the copy of its input to that of its "
      "logits; this model's layers and vocabulary";
  return json;
}

int64_t now_s() {
  return base::unix_ns() / 1'000'000'000;
}

void refuse(ResponseWriter& writer, const ApiError& error) {
  writer.response(error.status, kJson, error_body(error.message, "invalid_request_error", error.param, error.code));
}

// Waits for the request's next tokens; nothing if the client has gone or the server stops.
std::optional<TokenEvent> next_event(TokenStream& stream, const Connection& connection) {
  while (true) {
    if (auto event = stream.pop()) return event;
    if (connection.wait_for(stream.descriptor()) != Wake::kReady) return std::nullopt;
  }
}

}  // namespace

Api::Api(Engine& engine, const Checkpoint& model, const KernelLibrary& kernels, std::string model_name)
    : engine_(engine), model_(model), kernels_(kernels), model_name_(std::move(model_name)), started_s_(now_s()) {}

void Api::answer(const HttpRequest& request, ResponseWriter& writer) {
  try {
    dispatch(request, writer);
  } catch (const std::exception& exception) {  // out of memory or descriptors
    writer.give_up();
    writer.response(500, kJson, error_body(exception.what(), "internal_error"));
  }
}

void Api::dispatch(const HttpRequest& request, ResponseWriter& writer) {
  const std::string& path = request.path;
  const bool is_completion = path == "/v1/completions";
  const bool is_known =
      is_completion || path == "/health" || path == "/v1/models" || path == "/metrics" || path == "/server_info";
  if (!is_known) {
    return writer.response(404, kJson,
                           error_body(fmt::format("there is no \"{}\" here", path), "invalid_request_error"));
  }
  const std::string_view allowed = is_completion ? "POST" : "GET";
  if (request.method != allowed) {
    return writer.response(405, kJson,
                           error_body(fmt::format("\"{}\" takes {} only", path, allowed), "invalid_request_error"),
                           fmt::format("Allow: {}\r\n", allowed));
  }
  if (is_completion) return complete(request, writer);
  if (path == "/health") {
    if (engine_.failure()) return writer.response(503, kJson, R"({"status":"failed"})");
    return writer.response(200, kJson, R"({"status":"ok"})");
  }
  if (path == "/v1/models") return writer.response(200, kJson, models_text());
  if (path == "/server_info") return writer.response(200, kJson, server_info_text());
  writer.response(200, kPrometheus, metrics_text(engine_.metrics(), engine_.options().num_draft_tokens, model_name_));
}

void Api::complete(const HttpRequest& request, ResponseWriter& writer) {
  const CompletionLimits limits = {.model_name = model_name_,
                                   .vocab_size = model_.config.vocab_size,
                                   .max_model_len = engine_.options().max_model_len};
  auto parsed = parse_completion_request(request.body, model_.tokenizer, limits);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return refuse(writer, *error);
  const auto& completion = std::get<CompletionRequest>(parsed);
  const std::string id = fmt::format("cmpl-{:08x}", next_id_.fetch_add(1));
  const auto stream = engine_.submit(completion.generation);
  // However this function is left, the engine need not go on afterwards.
  const struct Cancel {
    TokenStream& stream;
    ~Cancel() { stream.cancel(); }
  } cancel{*stream};
  if (completion.stream) {
    complete_streaming(completion, *stream, id, writer);
  } else {
    complete_whole(completion, *stream, id, writer);
  }
}

void Api::complete_whole(const CompletionRequest& request, TokenStream& stream, const std::string& id,
                         ResponseWriter& writer) {
  TokenEvent all;
  while (!all.finish) {
    auto event = next_event(stream, writer.connection());
    if (!event) return writer.give_up();
    if (event->finish == FinishReason::kError) {
      return writer.response(500, kJson, error_body(event->error, "internal_error"));
    }
    all.tokens.insert(all.tokens.end(), event->tokens.begin(), event->tokens.end());
    all.finish = event->finish;
  }
  CompletionFormatter formatter(request, model_.tokenizer, {id, now_s(), model_name_});
  writer.response(200, kJson, formatter.whole(all));
}

void Api::complete_streaming(const CompletionRequest& request, TokenStream& stream, const std::string& id,
                             ResponseWriter& writer) {
  CompletionFormatter formatter(request, model_.tokenizer, {id, now_s(), model_name_});
  if (!writer.begin_stream(kEventStream)) return writer.give_up();
  bool finished = false;
  while (!finished) {
    auto event = next_event(stream, writer.connection());
    if (!event) return writer.give_up();
    finished = event->finish.has_value();
    const bool failed = event->finish == FinishReason::kError;
    std::string text =
        failed ? "data: " + error_body(event->error, "internal_error") + "\n\n" : formatter.event(*event);
    if (finished && request.include_usage && !failed) text += formatter.usage_event();
    if (finished) text += "data: [DONE]\n\n";
    if (!writer.send_piece(text)) return writer.give_up();
  }
  if (!writer.end_stream()) writer.give_up();
}

std::string Api::models_text() const {
  ordered_json entry;
  entry["id"] = model_name_;
  entry["object"] = "model";
  entry["created"] = started_s_;
  entry["owned_by"] = "sweepctl";
  entry["max_model_len"] = engine_.options().max_model_len;
  ordered_json json;
  json["object"] = "list";
  json["data"] = ordered_json::array({entry});
  return json.dump();
}

std::string Api::server_info_text() const {
  const EngineOptions& options = engine_.options();
  const flashmla_build& build = kernels_.build();
  ordered_json json;
  json["engine"] = "embedded";
  json["version"] = SWEEPCTL_VERSION;
  json["model"] = model_name_;
  json["kernels"] = {{"path", kernels_.path()},   {"sha256", kernels_.sha256()}, {"abi_version", build.abi_version},
                     {"arch", build.arch},        {"variant", build.variant},    {"isa", build.isa},
                     {"compiler", build.compiler}};
  json["kv_layout"] = model_.config.kv_layout;
  json["kv_block_size"] = model_.config.kv_block_size;
  json["kv_blocks"] = engine_.kv_blocks();
  json["acceptance"] = {{"source", options.acceptance_length != 0 ? "explicit" : "measured"}};
  if (options.acceptance_length != 0) json["acceptance"]["length"] = options.acceptance_length;
  json["num_draft_tokens"] = options.num_draft_tokens;
  json["max_num_seqs"] = options.max_num_seqs;
  json["max_model_len"] = options.max_model_len;
  json["seed"] = options.seed;
  json["threads"] = options.threads;
  json["isa"] = cpu::simd().name;
  const Decoder& decoder = engine_.decoder();
  json["device"] = {{"name", decoder.device_name()}, {"tp", decoder.tensor_parallel()}};
  json["layers"] = model_.config.num_hidden_layers;
  json["heads"] = model_.config.num_attention_heads;
  json["steps"] = steps_json(engine_.metrics().device);
  return json.dump();
}

}  // namespace sweep::engine::embedded
