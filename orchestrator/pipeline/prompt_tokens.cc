#include "orchestrator/pipeline/prompt_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"

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

}  // namespace sweep::pipeline
