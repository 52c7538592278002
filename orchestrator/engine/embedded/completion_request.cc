#include "orchestrator/engine/embedded/completion_request.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace sweep::engine::embedded {

namespace {

using nlohmann::json;

constexpr int kMostDepth = 32;
constexpr double kMostTemperature = 100.0;

// Depth of nesting, looked at before parsing so that a hostile body cannot cost much.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// Options of the API that would change the result and are not implemented: refused unless they ask for nothing.
struct Unsupported {
  const char* name;
  double neutral_number;
};
constexpr Unsupported kUnsupported[] = {
    {"n", 1},
    {"best_of", 1},
    {"top_p", 1},
    {"top_k", -1},
    {"min_p", 0},
    {"presence_penalty", 0},
    {"frequency_penalty", 0},
    {"repetition_penalty", 1},
    {"stop", 0},
    {"stop_token_ids", 0},
    {"logprobs", 0},
    {"prompt_logprobs", 0},
    {"logit_bias", 0},
    {"echo", 0},
    {"suffix", 0},
    {"use_beam_search", 0},
    {"lora", 0},
};

bool is_neutral(const json& value, double neutral_number) {
  if (value.is_null() || value == json(false)) return true;
  if (value.is_number()) return value.get<double>() == neutral_number;
  return (value.is_array() || value.is_object() || value.is_string()) && (value.empty() || value == json(""));
}

// Reads members of the body; keeps the first error.
class Reader {
 public:
  explicit Reader(const json& body) : body_(body) {}

  void integer(const char* name, int64_t least, int64_t& target) {
    const json* value = member(name);
    if (value == nullptr) return;
    if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
      return fail(name, fmt::format("\"{}\" must be an integer", name));
    }
    target = value->get<int64_t>();
    if (target < least) fail(name, fmt::format("\"{}\" is {}, expected at least {}", name, target, least));
  }

  void boolean(const char* name, bool& target) {
    const json* value = member(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return fail(name, fmt::format("\"{}\" must be true or false", name));
    target = value->get<bool>();
  }

  void number(const char* name, double most, double& target) {
    const json* value = member(name);
    if (value == nullptr) return;
    if (!value->is_number()) return fail(name, fmt::format("\"{}\" must be a number", name));
    target = value->get<double>();
    if (!(target >= 0 && target <= most)) fail(name, fmt::format("\"{}\" must be between 0 and {}", name, most));
  }

  const json* member(const char* name) const {
    const auto found = body_.find(name);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
  }

  void fail(const std::string& param, std::string message, int status = 400, std::string code = {}) {
    if (!error_) error_ = ApiError{status, std::move(message), param, std::move(code)};
  }
  std::optional<ApiError>& error() { return error_; }

 private:
  const json& body_;
  std::optional<ApiError> error_;
};

void read_ids(const json& list, int64_t vocab_size, Reader& reader, std::vector<int32_t>& ids) {
  ids.reserve(list.size());
  for (const auto& item : list) {
    if (!item.is_number_integer()) return reader.fail("prompt", "a prompt list must hold token ids only");
    const bool huge = item.is_number_unsigned() && item.get<uint64_t>() > INT32_MAX;
    const int64_t id = huge ? INT64_MAX : item.get<int64_t>();
    if (id < 0 || id >= vocab_size) {
      return reader.fail("prompt", fmt::format("token id {} is outside the vocabulary of {}", item.dump(), vocab_size));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
}

void read_prompt(Reader& reader, const Tokenizer& tokenizer, int64_t vocab_size, std::vector<int32_t>& ids) {
  const json* prompt = reader.member("prompt");
  if (prompt == nullptr) return reader.fail("prompt", "\"prompt\" is missing");
  const bool wraps_one =
      prompt->is_array() && prompt->size() == 1 && ((*prompt)[0].is_array() || (*prompt)[0].is_string());
  if (wraps_one) prompt = &(*prompt)[0];
  if (prompt->is_string()) {
    ids = tokenizer.encode(prompt->get_ref<const std::string&>());
  } else if (prompt->is_array()) {
    if (!prompt->empty() && ((*prompt)[0].is_array() || (*prompt)[0].is_string())) {
      return reader.fail("prompt", "only one prompt per request is supported");
    }
    read_ids(*prompt, vocab_size, reader, ids);
  } else {
    return reader.fail("prompt", "\"prompt\" must be a text, a list of token ids, or a list with one of these");
  }
  if (ids.empty() && !reader.error()) reader.fail("prompt", "the prompt has no tokens");
}

void read_model(Reader& reader, const CompletionLimits& limits) {
  const json* model = reader.member("model");
  if (model == nullptr) return;
  if (!model->is_string()) return reader.fail("model", "\"model\" must be a text");
  if (*model != limits.model_name) {
    reader.fail("model",
                fmt::format("the model {} does not exist, this server has \"{}\"", model->dump(), limits.model_name),
                404, "model_not_found");
  }
}

void read_generation(Reader& reader, GenerationParameters& generation) {
  reader.integer("max_tokens", 1, generation.max_tokens);
  reader.integer("min_tokens", 0, generation.min_tokens);
  reader.boolean("ignore_eos", generation.ignore_eos);
  reader.number("temperature", kMostTemperature, generation.temperature);
  int64_t seed = 0;
  reader.integer("seed", INT64_MIN, seed);
  generation.seed = static_cast<uint64_t>(seed);
  if (generation.min_tokens > generation.max_tokens) {
    reader.fail("min_tokens", fmt::format("\"min_tokens\" is {}, more than \"max_tokens\" {}", generation.min_tokens,
                                          generation.max_tokens));
  }
}

void read_stream(Reader& reader, CompletionRequest& request) {
  reader.boolean("stream", request.stream);
  reader.boolean("return_token_ids", request.return_token_ids);
  const json* options = reader.member("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return reader.fail("stream_options", "\"stream_options\" must be an object");
  if (!request.stream) return reader.fail("stream_options", "\"stream_options\" needs \"stream\": true");
  Reader inner(*options);
  inner.boolean("include_usage", request.include_usage);
  inner.boolean("continuous_usage_stats", request.continuous_usage_stats);
  if (inner.error()) reader.fail("stream_options", inner.error()->message);
}

void check_length(Reader& reader, const GenerationParameters& generation, const CompletionLimits& limits) {
  const auto prompt = static_cast<int64_t>(generation.prompt.size());
  if (prompt + 1 > limits.max_model_len || generation.max_tokens > limits.max_model_len - prompt) {
    reader.fail("prompt",
                fmt::format("{} prompt tokens and \"max_tokens\" {} exceed the maximum context length of {} tokens",
                            prompt, generation.max_tokens, limits.max_model_len),
                400, "context_length_exceeded");
  }
}

}  // namespace

std::variant<CompletionRequest, ApiError> parse_completion_request(std::string_view body, const Tokenizer& tokenizer,
                                                                   const CompletionLimits& limits) {
  if (is_too_deep(body)) return ApiError{400, "the body is nested too deeply", "", ""};
  const json parsed = json::parse(body, nullptr, false);
  if (parsed.is_discarded()) return ApiError{400, "the body is not valid JSON", "", ""};
  if (!parsed.is_object()) return ApiError{400, "the body must be a JSON object", "", ""};
  Reader reader(parsed);
  CompletionRequest request;
  request.generation.temperature = 1.0;  // the API's default
  read_model(reader, limits);
  for (const auto& option : kUnsupported) {
    const json* value = reader.member(option.name);
    if (value != nullptr && !is_neutral(*value, option.neutral_number)) {
      reader.fail(option.name, fmt::format("\"{}\" is not supported by this server", option.name));
    }
  }
  read_prompt(reader, tokenizer, limits.vocab_size, request.generation.prompt);
  read_generation(reader, request.generation);
  read_stream(reader, request);
  check_length(reader, request.generation, limits);
  if (reader.error()) return std::move(*reader.error());
  return request;
}

}  // namespace sweep::engine::embedded
