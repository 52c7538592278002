#include "orchestrator/pipeline/prompt_tokens.h"

#include "orchestrator/base/temp_dir.h"
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

TEST_CASE("prompt tokens: files without a usable vocabulary are refused") {
  for (const auto& [config, tokenizer] :
       {std::pair("{}", "{}"), std::pair("[]", "{}"), std::pair("{\"vocab_size\": 0}", "{}"),
        std::pair("{\"vocab_size\": 1, \"eos_token_id\": 0}", "{}"), std::pair("{\"vocab_size\": 10}", "nonsense")}) {
    INFO(config << " " << tokenizer);
    CHECK_FALSE(ModelFolder(config, tokenizer).tokens().has_value());
  }
}
