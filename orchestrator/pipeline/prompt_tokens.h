// Which token ids random prompts may use: the model's vocabulary without its special tokens.
#pragma once

#include <filesystem>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/loadgen/prompt.h"

namespace sweep::pipeline {

// From config.json (vocab_size, *_token_id; also inside text_config) and the added tokens of tokenizer.json.
diag::Result<loadgen::TokenRange> prompt_tokens(const std::filesystem::path& model_folder);

}  // namespace sweep::pipeline
