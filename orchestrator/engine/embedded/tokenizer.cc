#include "orchestrator/engine/embedded/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "orchestrator/diag/rules/embedded.h"

namespace sweep::engine::embedded {

namespace {

using nlohmann::ordered_json;

constexpr int64_t kFirstByteId = 4;
constexpr int64_t kByteCount = 256;
constexpr double kWordScore = -1.0;
constexpr double kByteScore = -100.0;
constexpr size_t kLongestToken = 256;

std::string special_name(const ModelConfig& config, int64_t id) {
  if (id == config.bos_token_id) return "<bos>";
  if (id == config.eos_token_id) return "<eos>";
  if (id == config.pad_token_id) return "<pad>";
  if (id == config.dspark_noise_token_id) return "<noise>";
  return fmt::format("<unused{}>", id);
}

// Word number `index`: a space and two or three syllables; distinct for distinct numbers below 343000.
std::string word(int64_t index) {
  static constexpr std::string_view kConsonants = "bdfgklmnprstvz";
  static constexpr std::string_view kVowels = "aeiou";
  constexpr int64_t kSyllables = 70;
  constexpr int64_t kTwoSyllables = kSyllables * kSyllables;
  constexpr int64_t kStep = 2731;  // prime to kTwoSyllables: neighbours in the vocabulary do not look alike
  std::string text = " ";
  const auto append = [&](int64_t syllable) {
    text.push_back(kConsonants[static_cast<size_t>(syllable) / kVowels.size()]);
    text.push_back(kVowels[static_cast<size_t>(syllable) % kVowels.size()]);
  };
  const int64_t mixed = index % kTwoSyllables * kStep % kTwoSyllables;
  append(mixed / kSyllables);
  append(mixed % kSyllables);
  for (int64_t rest = index / kTwoSyllables; rest > 0; rest /= kSyllables) append(rest % kSyllables);
  return text;
}

std::optional<int> byte_token(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text.back() != '>') return std::nullopt;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return value;
}

ordered_json special_tokens(const ModelConfig& config) {
  ordered_json tokens = ordered_json::array();
  for (int64_t id = 0; id < std::min(kFirstByteId, config.vocab_size); ++id) {
    ordered_json token;
    token["id"] = id;
    token["content"] = special_name(config, id);
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) token[flag] = false;
    token["special"] = true;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

int64_t first_word_id(const ModelConfig& config) {
  return config.vocab_size >= 2 * (kFirstByteId + kByteCount) ? kFirstByteId + kByteCount : kFirstByteId;
}

std::string tokenizer_text(const ModelConfig& config) {
  ordered_json vocabulary = ordered_json::array();
  const int64_t words = first_word_id(config);
  for (int64_t id = 0; id < config.vocab_size; ++id) {
    if (id < kFirstByteId) {
      vocabulary.push_back({special_name(config, id), 0.0});
    } else if (id < words) {
      vocabulary.push_back({fmt::format("<0x{:02X}>", id - kFirstByteId), kByteScore});
    } else {
      vocabulary.push_back({word(id - words), kWordScore});
    }
  }
  ordered_json json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] = special_tokens(config);
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = nullptr;
  json["post_processor"] = nullptr;
  json["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  json["model"] = {{"type", "Unigram"}, {"unk_id", nullptr}, {"vocab", std::move(vocabulary)}, {"byte_fallback", true}};
  return json.dump() + "\n";
}

std::string tokenizer_config_text(const ModelConfig& config) {
  ordered_json json;
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  json["bos_token"] = special_name(config, config.bos_token_id);
  json["eos_token"] = special_name(config, config.eos_token_id);
  json["pad_token"] = special_name(config, config.pad_token_id);
  json["add_bos_token"] = false;
  json["add_eos_token"] = false;
  json["clean_up_tokenization_spaces"] = false;
  json["model_max_length"] = config.max_position_embeddings;
  return json.dump(2) + "\n";
}

diag::Result<Tokenizer> Tokenizer::parse(std::string_view text, const std::string& name, int64_t vocab_size) {
  const auto refuse = [&](const std::string& problem) {
    return diag::fail(diag::make_at(diag::rule::embedded_model_invalid, {.file = name}, problem));
  };
  const auto json = ordered_json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return refuse("the file is not a JSON object");
  const auto model = json.find("model");
  if (model == json.end() || !model->is_object() || model->value("type", ordered_json()) != "Unigram" ||
      !model->contains("vocab") || !(*model)["vocab"].is_array()) {
    return refuse("\"model\" is not a Unigram model with a \"vocab\" list");
  }
  std::set<int64_t> special;
  if (const auto added = json.find("added_tokens"); added != json.end() && added->is_array()) {
    for (const auto& token : *added) {
      if (token.is_object() && token.contains("id") && token["id"].is_number_integer()) {
        special.insert(token["id"].get<int64_t>());
      }
    }
  }
  Tokenizer tokenizer;
  for (const auto& entry : (*model)["vocab"]) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      return refuse(fmt::format("\"vocab\" entry {} is not a pair of text and score", tokenizer.pieces_.size()));
    }
    const auto id = static_cast<int32_t>(tokenizer.pieces_.size());
    Piece piece{entry[0].get<std::string>(), entry[1].get<double>()};
    if (special.count(id) != 0) {
      piece.bytes.clear();
    } else if (const auto byte = byte_token(piece.bytes)) {
      piece.bytes = std::string(1, static_cast<char>(*byte));
    }
    if (piece.bytes.size() > kLongestToken) return refuse(fmt::format("token {} is too long", id));
    if (!piece.bytes.empty()) tokenizer.ids_.emplace(piece.bytes, id);
    tokenizer.longest_ = std::max(tokenizer.longest_, piece.bytes.size());
    tokenizer.pieces_.push_back(std::move(piece));
  }
  if (tokenizer.size() != vocab_size) {
    return refuse(fmt::format("the vocabulary has {} entries, the model {}", tokenizer.size(), vocab_size));
  }
  return tokenizer;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  constexpr int32_t kDropped = -1;
  constexpr double kDroppedScore = -1e6;
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    int32_t id = kDropped;
    uint32_t length = 1;
  };
  // best[i]: the best segmentation of the text from i on.
  std::vector<Best> best(text.size() + 1);
  best[text.size()].score = 0;
  for (size_t at = text.size(); at-- > 0;) {
    best[at].score = best[at + 1].score + kDroppedScore;
    for (size_t length = std::min(longest_, text.size() - at); length > 0; --length) {
      const auto found = ids_.find(text.substr(at, length));
      if (found == ids_.end()) continue;
      const double score = best[at + length].score + pieces_[static_cast<size_t>(found->second)].score;
      if (score > best[at].score) best[at] = {score, found->second, static_cast<uint32_t>(length)};
    }
  }
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size(); at += best[at].length) {
    if (best[at].id != kDropped) ids.push_back(best[at].id);
  }
  return ids;
}

namespace {

// Bytes of the character that begins with this byte; 0 if none can.
size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

// Whether `next` may be the second byte after `first`: excludes overlong forms, surrogates and values above U+10FFFF.
bool is_second_byte(unsigned char first, unsigned char next) {
  switch (first) {
    case 0xE0:
      return next >= 0xA0 && next < 0xC0;
    case 0xED:
      return next >= 0x80 && next < 0xA0;
    case 0xF0:
      return next >= 0x90 && next < 0xC0;
    case 0xF4:
      return next >= 0x80 && next < 0x90;
    default:
      return next >= 0x80 && next < 0xC0;
  }
}

}  // namespace

std::string Utf8Assembler::add(std::string_view bytes) {
  pending_ += bytes;
  return drain(false);
}

std::string Utf8Assembler::finish() {
  return drain(true);
}

std::string Utf8Assembler::drain(bool at_end) {
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string text;
  size_t at = 0;
  while (at < pending_.size()) {
    const auto first = static_cast<unsigned char>(pending_[at]);
    const size_t length = sequence_length(first);
    size_t valid = length == 0 ? 0 : 1;
    while (valid > 0 && valid < length && at + valid < pending_.size()) {
      const auto next = static_cast<unsigned char>(pending_[at + valid]);
      if (!(valid == 1 ? is_second_byte(first, next) : (next & 0xC0) == 0x80)) break;
      ++valid;
    }
    if (length != 0 && valid == length) {
      text.append(pending_, at, length);
      at += length;
    } else if (length != 0 && at + valid == pending_.size() && !at_end) {
      break;
    } else {
      text += kReplacement;
      at += std::max<size_t>(valid, 1);
    }
  }
  pending_.erase(0, at);
  return text;
}

}  // namespace sweep::engine::embedded
