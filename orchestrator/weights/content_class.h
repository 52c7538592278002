// What a model's file is for, by its name.
#pragma once

#include <cstdint>
#include <string_view>

namespace sweep::weights {

enum class ContentClass : uint8_t {
  kConfig,     // config.json, generation_config.json
  kTokenizer,  // tokenizer files, vocabularies, merges, special tokens, chat templates
  kIndex,      // *.index.json: which shard holds which tensor
  kShard,      // files of tensors
  kOther,      // code, licences, texts for people
};
inline constexpr size_t kContentClasses = 5;

std::string_view content_class_name(ContentClass content);  // "config", "tokenizer", "index", "shard", "other"

// Of a path inside the model's folder; folders say nothing.
ContentClass content_class(std::string_view path);

}  // namespace sweep::weights
