#include "orchestrator/weights/content_class.h"

#include <algorithm>
#include <array>

namespace sweep::weights {

namespace {

// Names that transformers, SentencePiece, tiktoken and byte-pair tokenizers load.
constexpr auto kTokenizerNames = std::to_array<std::string_view>(
    {"vocab.json", "vocab.txt", "merges.txt", "added_tokens.json", "special_tokens_map.json"});
constexpr auto kTokenizerPrefixes = std::to_array<std::string_view>({"tokenizer", "chat_template"});
constexpr auto kTokenizerSuffixes = std::to_array<std::string_view>({".model", ".tiktoken", ".jinja"});
constexpr auto kShardSuffixes =
    std::to_array<std::string_view>({".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf"});

template <class Texts, class Test>
bool any(const Texts& texts, Test test) {
  return std::any_of(texts.begin(), texts.end(), test);
}

}  // namespace

std::string_view content_class_name(ContentClass content) {
  constexpr std::array<std::string_view, kContentClasses> kNames{"config", "tokenizer", "index", "shard", "other"};
  return kNames[static_cast<size_t>(content)];
}

ContentClass content_class(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name == "config.json" || name == "generation_config.json") return ContentClass::kConfig;
  if (name.ends_with(".index.json")) return ContentClass::kIndex;
  if (any(kShardSuffixes, [&](std::string_view suffix) { return name.ends_with(suffix); })) return ContentClass::kShard;
  if (any(kTokenizerNames, [&](std::string_view known) { return name == known; }) ||
      any(kTokenizerPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
      any(kTokenizerSuffixes, [&](std::string_view suffix) { return name.ends_with(suffix); }))
    return ContentClass::kTokenizer;
  return ContentClass::kOther;
}

}  // namespace sweep::weights
