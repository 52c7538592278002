#include "orchestrator/plan/row.h"

#include <fmt/format.h>

#include "orchestrator/digest/sha256.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/yaml/scalar.h"

namespace sweep::plan {

namespace {

void escape(std::string& out, const std::string& text) {
  out += Row(text).dump(-1, ' ', true, Row::error_handler_t::replace);
}

void write(std::string& out, const Row& value) {
  if (value.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : value.items()) {
      if (!first) out += ", ";
      first = false;
      escape(out, key);
      out += ": ";
      write(out, item);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    bool first = true;
    for (const Row& item : value) {
      if (!first) out += ", ";
      first = false;
      write(out, item);
    }
    out += ']';
  } else if (value.is_string()) {
    escape(out, value.get_ref<const std::string&>());
  } else {
    out += value.dump();
  }
}

// Sorted by key, without what depends on the concurrency.
nlohmann::json recipe_of(const Row& row) {
  nlohmann::json recipe = row;
  for (const char* field : {"conc", "exp-name", "recipe-fingerprint"}) recipe.erase(field);
  return recipe;
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
  if (node.is_map()) {
    Row object = Row::object();
    for (const yaml::Entry& entry : node.entries) object[entry.key] = value_row(entry.value);
    return object;
  }
  if (node.is_sequence()) {
    Row list = Row::array();
    for (const yaml::Node& item : node.items) list.push_back(value_row(item));
    return list;
  }
  if (node.is_null()) return nullptr;
  if (const auto boolean = yaml::decode_boolean(node)) return *boolean;
  if (const auto integer = yaml::decode_integer(node)) return *integer;
  if (const auto number = yaml::decode_number(node)) return *number;
  return node.text;
}

std::string row_text(const Row& row) {
  std::string out;
  write(out, row);
  return out;
}

std::string recipe_key(const Row& row) {
  return recipe_of(row).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string recipe_fingerprint(const Row& row) {
  return digest::sha256_hex(recipe_of(row).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace sweep::plan
