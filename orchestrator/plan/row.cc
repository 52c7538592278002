#include "orchestrator/plan/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "orchestrator/digest/sha256.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/yaml/scalar.h"

namespace sweep::plan {

namespace {

// Printable ASCII without quotes and backslashes, as nearly all text in rows is. Eight bytes at a time: a byte of
// `flagged` has its high bit set where a character is to be escaped, or lies right above one.
bool is_plain(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHigh = 0x8080808080808080;
  const auto zero_bytes = [&](uint64_t word) { return (word - kOnes) & ~word & kHigh; };
  uint64_t flagged = 0;
  while (!text.empty()) {
    uint64_t word = 0x2020202020202020;
    const size_t size = std::min(text.size(), sizeof word);
    std::memcpy(&word, text.data(), size);
    flagged |= (word - kOnes * 0x20) | word | zero_bytes(word ^ kOnes * '"') | zero_bytes(word ^ kOnes * '\\') |
               zero_bytes(word ^ kOnes * 0x7F);
    text.remove_prefix(size);
  }
  return (flagged & kHigh) == 0;
}

void write_string(std::string& out, const std::string& text) {
  if (is_plain(text))
    out.append(1, '"').append(text).append(1, '"');
  else
    out += Row(text).dump(-1, ' ', true, Row::error_handler_t::replace);
}

void append_integer(std::string& out, int64_t value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

struct JsonStyle {
  std::string_view comma;
  std::string_view colon;
  bool sorted = false;  // keys of objects
};
constexpr JsonStyle kPeerStyle{", ", ": ", false};
constexpr JsonStyle kCompactStyle{",", ":", true};

using Fields = std::vector<const std::pair<const std::string, Row>*>;

Fields sorted_fields(const Row& object) {
  Fields fields;
  const auto& all = object.get_ref<const Row::object_t&>();
  fields.reserve(all.size());
  for (const auto& field : all) fields.push_back(&field);
  std::sort(fields.begin(), fields.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  return fields;
}

void write(std::string& out, const Row& value, const JsonStyle& style, std::span<const std::string_view> without = {});

void write_object(std::string& out, const Row& object, const JsonStyle& style,
                  std::span<const std::string_view> without) {
  std::string_view separator;
  const auto write_field = [&](const auto& field) {
    if (std::find(without.begin(), without.end(), field.first) != without.end()) return;
    out += separator;
    separator = style.comma;
    write_string(out, field.first);
    out += style.colon;
    write(out, field.second, style);
  };
  out += '{';
  if (style.sorted)
    for (const auto* field : sorted_fields(object)) write_field(*field);
  else
    for (const auto& field : object.get_ref<const Row::object_t&>()) write_field(field);
  out += '}';
}

void write(std::string& out, const Row& value, const JsonStyle& style, std::span<const std::string_view> without) {
  std::string_view separator;
  switch (value.type()) {
    case Row::value_t::object:
      write_object(out, value, style, without);
      break;
    case Row::value_t::array:
      out += '[';
      for (const Row& item : value.get_ref<const Row::array_t&>()) {
        out += separator;
        separator = style.comma;
        write(out, item, style);
      }
      out += ']';
      break;
    case Row::value_t::string:
      write_string(out, value.get_ref<const std::string&>());
      break;
    case Row::value_t::boolean:
      out += value.get<bool>() ? "true" : "false";
      break;
    case Row::value_t::number_integer:
      append_integer(out, value.get<int64_t>());
      break;
    default:
      out += value.dump();
  }
}

Row scalar_row(const yaml::Node& node) {
  // Text is by far the most frequent; the strict decoders describe what is wrong with it at some cost.
  constexpr std::string_view kFirst = "0123456789+-tf";
  if (node.quoted || node.text.empty() || kFirst.find(node.text.front()) == std::string_view::npos) return node.text;
  if (const auto boolean = yaml::decode_boolean(node)) return *boolean;
  if (const auto integer = yaml::decode_integer(node)) return *integer;
  if (const auto number = yaml::decode_number(node)) return *number;
  return node.text;
}

}  // namespace

std::vector<int64_t> BuiltRow::concurrencies() const {
  std::vector<int64_t> values;
  const Row& conc = row.at("conc");
  if (conc.is_array())
    for (const Row& value : conc) values.push_back(value.get<int64_t>());
  else
    values.push_back(conc.get<int64_t>());
  return values;
}

diag::SourceSpan BuiltRow::where() const {
  return entry->document->span(point->where);
}

std::string BuiltRow::path() const {
  for (const schema::PointView& view : schema::points_of(*entry))
    if (view.point == point) return view.path;
  return entry->key;
}

std::string length_text(int64_t isl, int64_t osl) {
  if (isl == 1024 && osl == 1024) return "1k1k";
  if (isl == 8192 && osl == 1024) return "8k1k";
  return fmt::format("{}_{}", isl, osl);
}

Row value_row(const yaml::Node& node) {
  if (node.is_scalar()) return scalar_row(node);
  if (node.is_null()) return nullptr;
  if (node.is_sequence()) {
    Row::array_t list;
    list.reserve(node.items.size());
    for (const yaml::Node& item : node.items) list.push_back(value_row(item));
    return list;
  }
  Row object = Row::object();
  auto& fields = object.get_ref<Row::object_t&>();
  constexpr size_t kMoreFields = 4;  // sizes that rows of workers are completed with
  fields.reserve(node.entries.size() + kMoreFields);
  for (const yaml::Entry& entry : node.entries) put(object, entry.key, value_row(entry.value));
  return object;
}

void put(Row& row, std::string_view name, Row value) {
  row.get_ref<Row::object_t&>().std::vector<std::pair<const std::string, Row>>::emplace_back(name, std::move(value));
}

void append_text(std::string& out, const Row& row) {
  write(out, row, kPeerStyle);
}

std::string compact_text(const Row& row, std::span<const std::string_view> without) {
  std::string out;
  write(out, row, kCompactStyle, without);
  return out;
}

std::string recipe_key(const Row& row) {
  constexpr std::array<std::string_view, 3> kOfThePoint{"conc", "exp-name", "recipe-fingerprint"};
  return compact_text(row, kOfThePoint);
}

std::string recipe_fingerprint(const Row& row) {
  return digest::sha256_hex(recipe_key(row));
}

}  // namespace sweep::plan
