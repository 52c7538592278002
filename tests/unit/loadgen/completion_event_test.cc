// Events read without a tree are read as with one, and those that engines send are read without.
#include "orchestrator/loadgen/completion_event.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace sweep::loadgen {

namespace {

// As engines send them.
const std::vector<std::string> kUsual{
    // vLLM, with token ids and continuous usage
    R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":" caf\u00e9","logprobs":null,"finish_reason":null,"stop_reason":null,"token_ids":[1,22,333]}],"usage":{"prompt_tokens":8192,"total_tokens":8195,"completion_tokens":3}})",
    // a chat's first event, text, finish and usage
    R"({"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})",
    R"({"choices":[{"index":0,"delta":{"content":"😀 漢字 \ud83d\ude00 \"x\" \\ \n"},"finish_reason":null}],"usage":null})",
    R"({"choices":[{"index":0,"delta":{"reasoning_content":"so"},"finish_reason":null,"matched_stop":null}]})",
    R"({"choices":[{"index":0,"delta":{},"finish_reason":"length"}]})",
    R"({"id":"c","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":4,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}})",
    // TensorRT-LLM
    R"({"id":"cmpl-1","choices":[{"index":0,"text":"a","token_ids":null,"logprobs":null,"finish_reason":null,"disaggregated_params":null,"avg_decoded_tokens_per_iter":5.25}],"usage":{"prompt_tokens":8,"total_tokens":9,"completion_tokens":1}})",
    " { \"choices\" : [ { \"text\" : \"a\" } , { \"text\" : \"another\" } ] ,\n\t\"usage\" : { } } ",
};

// What the quick way may give up on, right or wrong.
const std::vector<std::string> kUnusual{
    "",
    "[]",
    "{",
    "{}x",
    "null",
    "{\"choices\":[1]}",
    "{\"choices\":{}}",
    "{\"choices\":[{\"text\":1}]}",
    "{\"choices\":[{\"text\":\"a\"}],\"choices\":[{\"text\":\"b\"}]}",
    "{\"choices\":[{\"text\":\"a\",\"text\":\"b\"}]}",
    "{\"choices\":[{\"text\":\"a\",\"delta\":{\"content\":\"b\"}}]}",
    "{\"choices\":[{\"delta\":{\"reasoning\":\"b\",\"content\":\"a\"}}]}",
    "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}",
    "{\"ch\\u006fices\":[{\"text\":\"a\"}]}",
    "{\"choices\":[{\"token_ids\":[1,\"2\",3]}]}",
    "{\"choices\":[{\"token_ids\":[18446744073709551615]}]}",
    "{\"choices\":[{\"token_ids\":[-1,-0,0]}]}",
    "{\"usage\":{\"completion_tokens\":-0}}",
    "{\"usage\":{\"completion_tokens\":-1}}",
    "{\"usage\":{\"completion_tokens\":01}}",
    "{\"usage\":{\"completion_tokens\":1.0}}",
    "{\"usage\":{\"completion_tokens\":1e3}}",
    "{\"usage\":{\"completion_tokens\":1099511627777}}",
    "{\"usage\":{\"completion_tokens\":\"5\"}}",
    "{\"usage\":7}",
    "{\"usage\":{\"prompt_tokens_details\":[]}}",
    "{\"error\":{\"message\":\"no\"}}",
    "{\"error\":null}",
    "{\"x\":1e999}",
    "{\"x\":1.5,\"y\":-0.25,\"z\":-}",
    "{\"x\":.5}",
    "{\"x\":truth}",
    "{\"x\":\"\\ud83d\"}",
    "{\"x\":\"\\ude00\\ud83d\"}",
    "{\"x\":\"\\q\"}",
    "{\"x\":\"\\u12\"}",
    "{\"x\":\"\xC3\"}",
    "{\"x\":\"\xED\xA0\x80\"}",
    "{\"x\":\"a\nb\"}",
    "{\"x\":[1,]}",
    "{\"x\":[1 2]}",
    "{\"x\" 1}",
    "{,}",
    std::string(200, '[') + std::string(200, ']'),
    "{\"x\":" + std::string(100, '[') + std::string(100, ']') + "}",
};

// Whether the quick way read it. It may give up, but not be mistaken.
bool is_read_alike(const std::string& text) {
  CompletionEvent quick;
  CompletionEvent tree;
  if (!read_event_quickly(text, quick)) return false;
  CHECK(read_event_as_tree(text, tree));
  CHECK(quick == tree);
  return true;
}

}  // namespace

TEST_CASE("completion event: what engines send is read without a tree, and alike") {
  for (const std::string& text : kUsual) {
    CAPTURE(text);
    CHECK(is_read_alike(text));
  }
}

TEST_CASE("completion event: what is unusual or wrong is never read otherwise than by the tree") {
  for (const std::string& text : kUnusual) {
    CAPTURE(text);
    is_read_alike(text);
    CompletionEvent event;
    CompletionEvent tree;
    CHECK(read_event(text, event) == read_event_as_tree(text, tree));
    CHECK(event == tree);
  }
}

TEST_CASE("completion event: a text cut or changed at any byte is never read otherwise than by the tree") {
  for (const std::string& text : kUsual) {
    for (size_t i = 0; i < text.size(); ++i) {
      CAPTURE(text, i);
      is_read_alike(text.substr(0, i));
      for (const char c : std::string("\"\\{}[],:-.0e\x80\n")) {
        std::string changed = text;
        changed[i] = c;
        is_read_alike(changed);
      }
    }
  }
}

TEST_CASE("completion event: one event leaves nothing for the next") {
  CompletionEvent event;
  REQUIRE(read_event(kUsual[0], event));
  CHECK(event.token_ids.size() == 3);
  REQUIRE(read_event("{}", event));
  CHECK(event == CompletionEvent{});
}

}  // namespace sweep::loadgen
