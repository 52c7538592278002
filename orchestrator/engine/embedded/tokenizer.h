// The model's tokenizer: special tokens, one token per byte, and synthetic words. Stored in tokenizer.json as a Unigram
// model with byte fallback.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/model_config.h"

namespace sweep::engine::embedded {

// The vocabulary that make_model() writes: special tokens 0 to 3, bytes from 4 on, then words. A vocabulary too small
// for all bytes has no byte tokens at all.
int64_t first_word_id(const ModelConfig& config);
std::string tokenizer_text(const ModelConfig& config);         // tokenizer.json
std::string tokenizer_config_text(const ModelConfig& config);  // tokenizer_config.json

class Tokenizer {
 public:
  // `name` is used in messages. The vocabulary must have `vocab_size` entries.
  static diag::Result<Tokenizer> parse(std::string_view text, const std::string& name, int64_t vocab_size);

  // The segmentation with the best total score; among equals the one with the longest first token. Special tokens are
  // not recognised in text and none is added. Bytes that no token covers are dropped.
  std::vector<int32_t> encode(std::string_view text) const;

  // The bytes a token stands for; empty for special tokens. `id` must be in range.
  const std::string& bytes_of(int32_t id) const { return pieces_[static_cast<size_t>(id)].bytes; }

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }

 private:
  struct Piece {
    std::string bytes;
    double score = 0;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::vector<Piece> pieces_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  size_t longest_ = 1;
};

// Joins the bytes of tokens into text that is valid UTF-8 at every moment: an unfinished character is held back, bytes
// that can never become one turn into U+FFFD.
class Utf8Assembler {
 public:
  // The text that became complete.
  std::string add(std::string_view bytes);
  // What is left at the end.
  std::string finish();

 private:
  std::string drain(bool at_end);
  std::string pending_;
};

}  // namespace sweep::engine::embedded
