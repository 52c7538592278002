#include "orchestrator/pipeline/prompt_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/run.h"

namespace sweep::pipeline {

namespace {

using nlohmann::json;

diag::Result<json> read_object(const std::filesystem::path& path) {
  const auto text = base::read_file(path);
  if (!text) return diag::fail(diag::rule::file_unreadable, text.error().text());
  json document = json::parse(*text, nullptr, false);
  if (!document.is_object())
    return diag::fail(diag::make_at(diag::rule::file_malformed, {.file = path.string()}, "not a JSON object"));
  return document;
}

constexpr size_t kFewestWords = 256;
// How vocabularies spell the space before a word: byte-level BPE, SentencePiece.
constexpr std::array kBehindSpace{"\u0120", "\u2581"};

bool is_plain_word(std::string_view piece) {
  constexpr size_t kShortest = 3;
  constexpr size_t kLongest = 12;
  return piece.size() >= kShortest && piece.size() <= kLongest &&
         std::all_of(piece.begin(), piece.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// A mapping from piece to id (BPE), or a list of [piece, score] (Unigram).
std::set<std::string> vocabulary_of(const json& model) {
  std::set<std::string> pieces;
  const auto vocabulary = model.find("vocab");
  if (vocabulary == model.end()) return pieces;
  if (vocabulary->is_object())
    for (const auto& [piece, id] : vocabulary->items()) pieces.insert(piece);
  if (vocabulary->is_array())
    for (const json& entry : *vocabulary)
      if (entry.is_array() && !entry.empty() && entry.front().is_string()) pieces.insert(entry.front());
  return pieces;
}

void add_ids(const json& value, std::vector<int64_t>& ids) {
  if (value.is_number_integer()) ids.push_back(value.get<int64_t>());
  if (value.is_array())
    for (const json& item : value) add_ids(item, ids);
}

}  // namespace

diag::Result<loadgen::TokenRange> prompt_tokens(const std::filesystem::path& model_folder) {
  auto config = read_object(model_folder / "config.json");
  if (!config) return diag::fail(std::move(config).error());
  loadgen::TokenRange range;
  for (const json* part : {&*config, config->contains("text_config") ? &(*config)["text_config"] : &*config}) {
    if (!part->is_object()) continue;
    for (const auto& [key, value] : part->items()) {
      if (key == "vocab_size" && value.is_number_integer()) range.end = value.get<int64_t>();
      if (key.ends_with("_token_id")) add_ids(value, range.excluded);
    }
  }
  auto tokenizer = read_object(model_folder / "tokenizer.json");
  if (!tokenizer) return diag::fail(std::move(tokenizer).error());
  if (const auto added = tokenizer->find("added_tokens"); added != tokenizer->end() && added->is_array())
    for (const json& token : *added)
      if (token.is_object() && token.contains("id")) add_ids(token["id"], range.excluded);
  std::sort(range.excluded.begin(), range.excluded.end());
  range.excluded.erase(std::unique(range.excluded.begin(), range.excluded.end()), range.excluded.end());
  if (range.end <= 0 || range.size() <= 0)
    return diag::fail(diag::make_at(diag::rule::file_malformed, {.file = (model_folder / "config.json").string()},
                                    "\"vocab_size\" is missing or leaves no ordinary token"));
  return range;
}

diag::Result<std::vector<std::string>> prompt_words(const std::filesystem::path& model_folder) {
  auto tokenizer = read_object(model_folder / "tokenizer.json");
  if (!tokenizer) return diag::fail(std::move(tokenizer).error());
  const auto model = tokenizer->find("model");
  const std::set<std::string> pieces =
      model != tokenizer->end() && model->is_object() ? vocabulary_of(*model) : std::set<std::string>();
  std::vector<std::string> words;
  for (const std::string& piece : pieces) {
    if (!is_plain_word(piece)) continue;
    for (const char* mark : kBehindSpace)
      if (pieces.contains(mark + piece)) words.push_back(piece);
  }
  if (words.size() < kFewestWords)
    return diag::fail(
        diag::make_at(diag::rule::run_no_words, {.file = (model_folder / "tokenizer.json").string()},
                      fmt::format("{} words are one token at the beginning and behind a space, expected {} or more",
                                  words.size(), kFewestWords),
                      "use --api completions, which sends token ids"));
  return words;
}

}  // namespace sweep::pipeline
