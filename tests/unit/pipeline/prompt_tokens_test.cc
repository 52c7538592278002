#include "orchestrator/pipeline/prompt_tokens.h"

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/run.h"
#include "tests/support/catch.h"

using namespace sweep;

namespace {

class ModelFolder {
 public:
  ModelFolder(const std::string& config, const std::string& tokenizer) {
    REQUIRE(base::write_file_atomic(folder_.path() / "config.json", config).has_value());
    REQUIRE(base::write_file_atomic(folder_.path() / "tokenizer.json", tokenizer).has_value());
  }
  diag::Result<loadgen::TokenRange> tokens() const { return pipeline::prompt_tokens(folder_.path()); }
  diag::Result<std::vector<std::string>> words() const { return pipeline::prompt_words(folder_.path()); }

 private:
  base::TempDir folder_ = base::TempDir::create().value();
};

}  // namespace

TEST_CASE("prompt tokens: special ids of the config and added tokens of the tokenizer are left out") {
  const ModelFolder folder(
      R"({"vocab_size": 100, "bos_token_id": 0, "eos_token_id": [1, 2], "dspark_noise_token_id": 99})",
      R"({"added_tokens": [{"id": 50}, {"id": 0}]})");
  const auto range = folder.tokens().value();
  CHECK(range.begin == 0);
  CHECK(range.end == 100);
  CHECK(range.excluded == std::vector<int64_t>{0, 1, 2, 50, 99});
}

TEST_CASE("prompt tokens: a config nested in text_config counts") {
  const ModelFolder folder(R"({"text_config": {"vocab_size": 10, "eos_token_id": 3}})", "{}");
  const auto range = folder.tokens().value();
  CHECK(range.end == 10);
  CHECK(range.excluded == std::vector<int64_t>{3});
}

TEST_CASE("prompt words: those that are one token at the beginning and behind a space, in both spellings") {
  std::string bpe;
  std::string unigram;
  for (char a = 'a'; a <= 'z'; ++a)
    for (char b = 'a'; b <= 'k'; ++b) {
      const std::string word{'q', a, b};
      bpe += (bpe.empty() ? "" : ",") + ("\"" + word + "\": 1, \"\u0120" + word + "\": 2");
      unigram += (unigram.empty() ? "" : ",") + ("[\"" + word + "\", 0], [\"\u2581" + word + "\", 0]");
    }
  const std::string others = R"("alone": 3, "\u0120behind": 4, "Caps": 5, "\u0120Caps": 6, "ab": 7, "\u0120ab": 8)";
  for (const std::string& vocabulary : {"{" + bpe + ", " + others + "}", "[" + unigram + ", [\"alone\", 0], [], 7]"}) {
    const ModelFolder folder("{}", R"({"model": {"vocab": )" + vocabulary + "}}");
    const auto words = folder.words();
    REQUIRE(words.has_value());
    CHECK(words->size() == 26 * 11);
    CHECK(words->front() == "qaa");
    CHECK(words->back() == "qzk");
  }
}

TEST_CASE("prompt words: too few of them, or no vocabulary, is refused with the way out") {
  for (const char* tokenizer : {"{}", R"({"model": 1})", R"({"model": {"vocab": "x"}})",
                                R"({"model": {"vocab": {"word": 1, "\u0120word": 2}}})"}) {
    const auto words = ModelFolder("{}", tokenizer).words();
    REQUIRE_FALSE(words.has_value());
    CHECK(words.error().rule == diag::rule::run_no_words);
    CHECK(contains(words.error().help, "--api completions"));
  }
}

TEST_CASE("prompt tokens: files without a usable vocabulary are refused") {
  for (const auto& [config, tokenizer] :
       {std::pair("{}", "{}"), std::pair("[]", "{}"), std::pair("{\"vocab_size\": 0}", "{}"),
        std::pair("{\"vocab_size\": 1, \"eos_token_id\": 0}", "{}"), std::pair("{\"vocab_size\": 10}", "nonsense")}) {
    INFO(config << " " << tokenizer);
    CHECK_FALSE(ModelFolder(config, tokenizer).tokens().has_value());
  }
}
