#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/schema/model_path.h"
#include "orchestrator/weights/json_keys.h"
#include "orchestrator/weights/safetensors.h"

namespace sweep::weights {

namespace {

using nlohmann::json;

constexpr size_t kMostProblems = 3;
constexpr double kLargestExactDouble = 0x1p53;

// Takes the map and the total out of an index as it is parsed; see HeaderReader.
class IndexReader final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return other_value(); }
  bool boolean(bool) override { return other_value(); }
  bool number_integer(number_integer_t) override { return other_value(); }
  bool number_unsigned(number_unsigned_t number) override {
    if (at_total()) index.total_size = number;
    return other_value();
  }
  // Some tools write the total as a float.
  bool number_float(number_float_t number, const string_t&) override {
    if (at_total() && number >= 0 && number < kLargestExactDouble) index.total_size = static_cast<uint64_t>(number);
    return other_value();
  }
  bool string(string_t& text) override {
    if (!in_map()) return true;
    index.weight_map.push_back({.name = std::move(tensor_), .file = number_of(text)});
    return true;
  }
  bool binary(binary_t&) override { return other_value(); }
  bool key(string_t& name) override {
    if (!in_map()) keys.key(name);  // those of the map are compared when they are sorted
    if (depth_ == 1)
      section_ = name == "weight_map" ? Section::kMap : name == "metadata" ? Section::kMetadata : Section::kOther;
    if (depth_ == 2) {
      is_total_ = name == "total_size";
      if (in_map()) tensor_ = std::move(name);
    }
    return true;
  }
  bool start_object(size_t) override {
    if (depth_ == 1 && section_ == Section::kMap) has_map = true;
    if (depth_ != 0) other_value();
    keys.begin_object();
    ++depth_;
    return true;
  }
  bool end_object() override {
    keys.end_object();
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 0) other_value();
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_at = position;
    return false;
  }

  ShardIndex index;
  JsonKeys keys;
  bool has_map = false;
  std::vector<std::string> without_file;  // tensors
  size_t error_at = 0;

 private:
  enum class Section : uint8_t { kOther, kMap, kMetadata };

  bool in_map() const { return depth_ == 2 && section_ == Section::kMap; }
  bool at_total() const { return depth_ == 2 && section_ == Section::kMetadata && is_total_; }
  bool other_value() {
    if (in_map()) without_file.push_back(std::move(tensor_));
    return true;
  }
  uint32_t number_of(const std::string& file) {
    const auto [found, is_new] = numbers_.emplace(file, static_cast<uint32_t>(index.files.size()));
    if (is_new) index.files.push_back(file);
    return found->second;
  }

  size_t depth_ = 0;
  Section section_ = Section::kOther;
  bool is_total_ = false;
  std::string tensor_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

class IndexCheck {
 public:
  IndexCheck(const std::string& name, diag::Diagnostics& diagnostics) : name_(name), diagnostics_(diagnostics) {}

  void malformed(const std::string& message) { add(diag::rule::weights_index_malformed, message); }
  void few(diag::RuleId rule, const std::vector<std::string>& messages) {
    for (size_t i = 0; i < std::min(messages.size(), kMostProblems); ++i) add(rule, messages[i]);
    if (messages.size() > kMostProblems)
      add(rule, fmt::format("{} more such problems", messages.size() - kMostProblems));
  }
  void sort_map(ShardIndex& index);
  void drop_unsafe_files(ShardIndex& index);

 private:
  void add(diag::RuleId rule, const std::string& message) {
    diag::Diagnostic diagnostic = diag::make(rule, fmt::format("\"{}\": {}", name_, message));
    diagnostic.path = name_;
    diagnostics_.add(std::move(diagnostic));
  }

  const std::string& name_;
  diag::Diagnostics& diagnostics_;
};

void IndexCheck::sort_map(ShardIndex& index) {
  auto& map = index.weight_map;
  const auto by_name = [](const MappedTensor& a, const MappedTensor& b) { return a.name < b.name; };
  if (!std::is_sorted(map.begin(), map.end(), by_name)) std::stable_sort(map.begin(), map.end(), by_name);
  std::vector<std::string> repeated;
  const auto last = std::unique(map.begin(), map.end(), [&](const MappedTensor& a, const MappedTensor& b) {
    if (a.name == b.name) repeated.push_back(fmt::format("tensor \"{}\" is listed twice", a.name));
    return a.name == b.name;
  });
  map.erase(last, map.end());
  few(diag::rule::weights_index_malformed, repeated);
}

void IndexCheck::drop_unsafe_files(ShardIndex& index) {
  std::unordered_set<uint32_t> unsafe;
  std::vector<std::string> problems;
  for (size_t i = 0; i < index.files.size(); ++i)
    if (const auto reason = schema::unsafe_reason(index.files[i])) {
      unsafe.insert(static_cast<uint32_t>(i));
      problems.push_back(fmt::format("the file name \"{}\" {}", index.files[i], *reason));
    }
  if (unsafe.empty()) return;
  std::erase_if(index.weight_map, [&](const MappedTensor& tensor) { return unsafe.contains(tensor.file); });
  few(diag::rule::weights_path_escape, problems);
}

}  // namespace

std::optional<IndexTotals> ShardIndex::totals() const {
  if (!total_size) return std::nullopt;
  return IndexTotals{.total_size = *total_size, .tensor_count = weight_map.size()};
}

std::optional<ShardIndex> parse_index(std::string_view text, const std::string& name, diag::Diagnostics& diagnostics) {
  IndexCheck check(name, diagnostics);
  IndexReader reader;
  const bool parsed = json::sax_parse(text, &reader);
  // The parser takes a zero byte for the end of the text.
  if (!parsed || text.find('\0') != std::string_view::npos) {
    check.malformed(fmt::format("it is not JSON at byte {}", parsed ? text.find('\0') : reader.error_at));
    return std::nullopt;
  }
  for (const std::string& twice : reader.keys.repeated()) check.malformed(fmt::format("\"{}\" is listed twice", twice));
  if (!reader.has_map) {
    check.malformed("there is no object \"weight_map\"");
    return std::nullopt;
  }
  for (std::string& tensor : reader.without_file) tensor = fmt::format("tensor \"{}\" has no file name", tensor);
  check.few(diag::rule::weights_index_malformed, reader.without_file);
  check.sort_map(reader.index);
  check.drop_unsafe_files(reader.index);
  return std::move(reader.index);
}

}  // namespace sweep::weights
