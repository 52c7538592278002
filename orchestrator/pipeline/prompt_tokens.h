// Which token ids random prompts may use: the model's vocabulary without its special tokens.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/loadgen/prompt.h"

namespace sweep::pipeline {

// From config.json (vocab_size, *_token_id; also inside text_config) and the added tokens of tokenizer.json.
diag::Result<loadgen::TokenRange> prompt_tokens(const std::filesystem::path& model_folder);

// Words of three to twelve small letters that are one token each, at the beginning of a text and behind a space;
// sorted. From the vocabulary of tokenizer.json, spelled with the marks of byte-level BPE ("\u0120word") or
// SentencePiece
// ("\u2581word"). Fails (run/no-words) if there are fewer than 256.
diag::Result<std::vector<std::string>> prompt_words(const std::filesystem::path& model_folder);

}  // namespace sweep::pipeline
