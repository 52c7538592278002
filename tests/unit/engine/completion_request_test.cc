#include "orchestrator/engine/embedded/completion_request.h"

#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::engine::embedded;

namespace {

std::variant<CompletionRequest, ApiError> parse(const std::string& body) {
  static const Tokenizer tokenizer = [] {
    const ModelConfig config;
    return Tokenizer::parse(tokenizer_text(config), "tokenizer.json", config.vocab_size).value();
  }();
  return parse_completion_request(body, tokenizer, {.model_name = "m", .vocab_size = 2048, .max_model_len = 100});
}

CompletionRequest accepted(const std::string& members) {
  const auto parsed = parse("{" + members + "}");
  if (const auto* error = std::get_if<ApiError>(&parsed)) FAIL(error->message);
  return std::get<CompletionRequest>(parsed);
}

ApiError refused(const std::string& body) {
  const auto parsed = parse(body);
  if (std::holds_alternative<CompletionRequest>(parsed)) FAIL("accepted: " << body);
  return std::get<ApiError>(parsed);
}

}  // namespace

TEST_CASE("completion request: defaults are those of the API") {
  const auto request = accepted(R"("prompt":[5])");
  CHECK(request.generation.prompt == std::vector<int32_t>{5});
  CHECK(request.generation.max_tokens == 16);
  CHECK(request.generation.min_tokens == 0);
  CHECK(request.generation.temperature == 1.0);
  CHECK(!request.generation.ignore_eos);
  CHECK(!request.stream);
  CHECK(!request.include_usage);
  CHECK(!request.return_token_ids);
}

TEST_CASE("completion request: every accepted option arrives") {
  const auto request = accepted(
      R"("model":"m","prompt":[[4,2047]],"max_tokens":9,"min_tokens":9,"ignore_eos":true,"temperature":0,"seed":-3,)"
      R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"return_token_ids":true,)"
      R"("n":1,"top_p":1.0,"stop":null,"stop_token_ids":[],"echo":false,"logprobs":null,"user":"ignored")");
  CHECK(request.generation.prompt == std::vector<int32_t>{4, 2047});
  CHECK(request.generation.max_tokens == 9);
  CHECK(request.generation.min_tokens == 9);
  CHECK(request.generation.ignore_eos);
  CHECK(request.generation.temperature == 0);
  CHECK(request.generation.seed == static_cast<uint64_t>(-3));
  CHECK(request.stream);
  CHECK(request.include_usage);
  CHECK(request.continuous_usage_stats);
  CHECK(request.return_token_ids);
}

TEST_CASE("completion request: text prompts are tokenised, alone or as the one element of a list") {
  CHECK(accepted(R"("prompt":"ab")").generation.prompt == std::vector<int32_t>{4 + 'a', 4 + 'b'});
  CHECK(accepted(R"("prompt":["ab"])").generation.prompt == std::vector<int32_t>{4 + 'a', 4 + 'b'});
}

TEST_CASE("completion request: what cannot be served is refused with the parameter and the reason") {
  struct Case {
    const char* body;
    const char* param;
    const char* message;
  };
  const Case cases[] = {
      {"", "", "JSON"},
      {"{", "", "JSON"},
      {"[]", "", "object"},
      {R"({"prompt":"\uD800"})", "", "JSON"},
      {R"({})", "prompt", "missing"},
      {R"({"prompt":null})", "prompt", "missing"},
      {R"({"prompt":[]})", "prompt", "no tokens"},
      {R"({"prompt":""})", "prompt", "no tokens"},
      {R"({"prompt":[[]]})", "prompt", "no tokens"},
      {R"({"prompt":{}})", "prompt", "must be"},
      {R"({"prompt":[[1],[2]]})", "prompt", "one prompt"},
      {R"({"prompt":["a","b"]})", "prompt", "one prompt"},
      {R"({"prompt":[1,"a"]})", "prompt", "token ids only"},
      {R"({"prompt":[1.5]})", "prompt", "token ids only"},
      {R"({"prompt":[2048]})", "prompt", "2048"},
      {R"({"prompt":[-1]})", "prompt", "-1"},
      {R"({"prompt":[18446744073709551615]})", "prompt", "outside"},
      {R"({"prompt":[5],"max_tokens":0})", "max_tokens", "at least 1"},
      {R"({"prompt":[5],"max_tokens":"9"})", "max_tokens", "integer"},
      {R"({"prompt":[5],"max_tokens":1e3})", "max_tokens", "integer"},
      {R"({"prompt":[5],"max_tokens":18446744073709551615})", "max_tokens", "integer"},
      {R"({"prompt":[5],"max_tokens":9223372036854775807})", "prompt", "maximum context length"},
      {R"({"prompt":[5],"max_tokens":100})", "prompt", "maximum context length"},
      {R"({"prompt":[5],"min_tokens":17})", "min_tokens", "more than"},
      {R"({"prompt":[5],"min_tokens":-1})", "min_tokens", "at least 0"},
      {R"({"prompt":[5],"temperature":-0.1})", "temperature", "between"},
      {R"({"prompt":[5],"temperature":"hot"})", "temperature", "number"},
      {R"({"prompt":[5],"ignore_eos":1})", "ignore_eos", "true or false"},
      {R"({"prompt":[5],"stream":"yes"})", "stream", "true or false"},
      {R"({"prompt":[5],"stream_options":{"include_usage":true}})", "stream_options", "needs"},
      {R"({"prompt":[5],"stream":true,"stream_options":[]})", "stream_options", "object"},
      {R"({"prompt":[5],"stream":true,"stream_options":{"include_usage":1}})", "stream_options", "include_usage"},
      {R"({"prompt":[5],"stop":"x"})", "stop", "not supported"},
      {R"({"prompt":[5],"stop":["x"]})", "stop", "not supported"},
      {R"({"prompt":[5],"n":2})", "n", "not supported"},
      {R"({"prompt":[5],"top_p":0.5})", "top_p", "not supported"},
      {R"({"prompt":[5],"echo":true})", "echo", "not supported"},
      {R"({"prompt":[5],"logprobs":3})", "logprobs", "not supported"},
  };
  for (const auto& c : cases) {
    INFO(c.body);
    const ApiError error = refused(c.body);
    CHECK(error.status == 400);
    CHECK(error.param == c.param);
    CHECK(contains(error.message, c.message));
  }
  CHECK(refused(R"({"prompt":[5],"max_tokens":100})").code == "context_length_exceeded");
  accepted(R"("prompt":[5],"max_tokens":99)");
}

TEST_CASE("completion request: an unknown model is 404") {
  const ApiError error = refused(R"({"model":"other","prompt":[5]})");
  CHECK(error.status == 404);
  CHECK(error.code == "model_not_found");
}

TEST_CASE("completion request: nesting beyond reason is refused quickly") {
  CHECK(contains(refused(R"({"prompt":)" + std::string(1'000'000, '[')).message, "nested"));
  CHECK(contains(refused(R"({"prompt":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[", "max_tokens":0})").message,
                 "at least 1"));
}
