#include "orchestrator/engine/embedded/tokenizer.h"

#include <set>

#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::engine::embedded;

namespace {

Tokenizer make_tokenizer() {
  const ModelConfig config;
  return Tokenizer::parse(tokenizer_text(config), "tokenizer.json", config.vocab_size).value();
}

std::string decoded(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += tokenizer.bytes_of(id);
  return text;
}

}  // namespace

TEST_CASE("tokenizer: any text comes back byte for byte") {
  const auto tokenizer = make_tokenizer();
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes.push_back(static_cast<char>(byte));
  for (const std::string& text : {std::string("Hello, world"), std::string(""), std::string("a b  c\n\t"),
                                  std::string("\xE4\xBD\xA0\xE5\xA5\xBD"), all_bytes}) {
    CHECK(decoded(tokenizer, tokenizer.encode(text)) == text);
  }
}

TEST_CASE("tokenizer: words are one token each, and all are different and printable") {
  const ModelConfig config;
  const auto tokenizer = make_tokenizer();
  std::set<std::string> words;
  for (int64_t id = first_word_id(config); id < config.vocab_size; ++id) {
    const std::string& word = tokenizer.bytes_of(static_cast<int32_t>(id));
    words.insert(word);
    CHECK(word.front() == ' ');
    CHECK(tokenizer.encode(word) == std::vector<int32_t>{static_cast<int32_t>(id)});
  }
  CHECK(static_cast<int64_t>(words.size()) == config.vocab_size - first_word_id(config));
}

TEST_CASE("tokenizer: special tokens have no text and are not found in text") {
  const auto tokenizer = make_tokenizer();
  for (int32_t id = 0; id < 4; ++id) CHECK(tokenizer.bytes_of(id).empty());
  CHECK(tokenizer.encode("<eos>").size() == 5);
}

TEST_CASE("tokenizer: files that do not describe the vocabulary are refused") {
  const auto problem = [](const char* text) {
    const auto parsed = Tokenizer::parse(text, "tokenizer.json", 1);
    return parsed.has_value() ? std::string() : parsed.error().message;
  };
  CHECK(contains(problem("{"), "JSON"));
  CHECK(contains(problem("{}"), "Unigram"));
  CHECK(contains(problem(R"({"model":{"type":"BPE","vocab":[]}})"), "Unigram"));
  CHECK(contains(problem(R"({"model":{"type":"Unigram","vocab":{}}})"), "vocab"));
  CHECK(contains(problem(R"({"model":{"type":"Unigram","vocab":[["a"]]}})"), "pair"));
  CHECK(contains(problem(R"({"model":{"type":"Unigram","vocab":[]}})"), "0 entries"));
  CHECK(problem(R"({"model":{"type":"Unigram","vocab":[["a",-1]]}})").empty());
}

TEST_CASE("utf-8 assembler: characters split over tokens appear when complete") {
  Utf8Assembler assembler;
  CHECK(assembler.add("a\xE4") == "a");
  CHECK(assembler.add("\xBD") == "");
  CHECK(assembler.add("\xA0"
                      "b") ==
        "\xE4\xBD\xA0"
        "b");
  CHECK(assembler.finish() == "");
}

TEST_CASE("utf-8 assembler: what can never become a character turns into the replacement character at once") {
  const std::string replacement = "\xEF\xBF\xBD";
  for (const std::string& bad : {std::string("\x80"), std::string("\xC0"), std::string("\xFF"), std::string("\xF5")}) {
    CHECK(Utf8Assembler().add(bad + "a") == replacement + "a");
  }
  CHECK(Utf8Assembler().add("\xE4"
                            "a") == replacement + "a");                   // broken off
  CHECK(contains(Utf8Assembler().add("\xED\xA0\x80"), replacement));      // surrogate
  CHECK(contains(Utf8Assembler().add("\xE0\x80\x80"), replacement));      // overlong
  CHECK(contains(Utf8Assembler().add("\xF4\x90\x80\x80"), replacement));  // above U+10FFFF
  Utf8Assembler unfinished;
  CHECK(unfinished.add("\xF0\x9F\x98") == "");
  CHECK(unfinished.finish() == replacement);
}
