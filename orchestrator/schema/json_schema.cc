#include "orchestrator/schema/json_schema.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace sweep::schema {

namespace {

using json = nlohmann::ordered_json;

// How a table is read. Changes of a base recipe have the same fields, but none must be there and null deletes what is
// not required; in a zip each value may also be a list, one item for each variant.
enum class Mode : uint8_t { kWhole, kChange, kZip };

json number_json(double value) {
  constexpr double kMostExact = 9007199254740992;  // 2^53
  if (std::floor(value) == value && std::fabs(value) <= kMostExact) return static_cast<int64_t>(value);
  return value;
}

std::string definition_name(const ObjectShape& shape, Mode mode) {
  std::string_view text = shape.name;
  for (const std::string_view article : {"a ", "an ", "the "})
    if (text.starts_with(article)) {
      text.remove_prefix(article.size());
      break;
    }
  std::string name;
  for (const char c : text) {
    if (c == '\'') continue;
    const bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool upper = c >= 'A' && c <= 'Z';
    name += kept ? c : upper ? static_cast<char>(c - 'A' + 'a') : '-';
  }
  if (mode == Mode::kChange) name += "-change";
  if (mode == Mode::kZip) name += "-zip";
  return name;
}

class Writer {
 public:
  json document(const FileShape& file) {
    json root = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", fmt::format("sweepctl {}", file.title)},
                 {"description", file.prose}};
    const bool mapping = file.root.kind == ShapeKind::kObject;
    json type = file.has_variants ? with_variants(*file.root.object)
                : mapping         ? fields_of(*file.root.object, Mode::kWhole)
                                  : of(file.root, Mode::kWhole);
    if (file.may_be_list) type = {{"if", {{"type", "array"}}}, {"then", {{"items", type}}}, {"else", type}};
    type.erase("description");
    root.update(type);
    root["definitions"] = std::move(definitions_);
    return root;
  }

 private:
  json with_variants(const ObjectShape& shape) {
    const json variants = {
        {"type", "object"},
        {"required", {"base"}},
        {"properties", {{"base", described(object(shape), Mode::kWhole, "the recipe that the variants change")}}},
        {"patternProperties",
         {{"^override_", described(object(shape), Mode::kChange, "a variant: what differs from base; null deletes")},
          {"^zip_override_",
           described(object(shape), Mode::kZip, "several variants: lists of one length, one item for each")}}},
        {"additionalProperties", false}};
    return {{"if", {{"required", {"base"}}}}, {"then", variants}, {"else", of(object(shape), Mode::kWhole)}};
  }

  // `prose` beside a reference would be ignored: siblings of $ref have no meaning in draft-07.
  json described(const Shape& shape, Mode mode, std::string_view prose, Need need = Need::kRequired) {
    json result = {{"description", prose}};
    json type = of(shape, mode, need);
    if (type.contains("$ref"))
      result["allOf"] = json::array({std::move(type)});
    else
      result.update(type);
    return result;
  }

  json of(const Shape& shape, Mode mode, Need need = Need::kRequired) {
    const bool leaf = shape.kind != ShapeKind::kObject && shape.kind != ShapeKind::kMap;
    const bool zipped = leaf && mode == Mode::kZip;
    json type = plain(shape, leaf ? Mode::kWhole : mode);
    const json one = shape.nullable || (mode != Mode::kWhole && need == Need::kOptional) ? or_null(type) : type;
    if (!zipped) return one;
    if (one.empty()) return one;
    const json each = {{"type", "array"}, {"minItems", 1}, {"items", one}};
    // A list at a leaf is always an axis; lists as values are its items.
    if (shape.kind == ShapeKind::kList) return each;
    return {{"anyOf", {one, each}}};
  }

  static json or_null(json type) {
    if (type.empty()) return type;  // anything
    if (const auto found = type.find("type"); found != type.end() && !type.contains("enum") && found->is_string()) {
      *found = {*found, "null"};
      return type;
    }
    if (const auto words = type.find("enum"); words != type.end()) {
      words->push_back(nullptr);
      type.erase("type");
      return type;
    }
    return {{"anyOf", {std::move(type), json{{"type", "null"}}}}};
  }

  json plain(const Shape& shape, Mode mode) {
    switch (shape.kind) {
      case ShapeKind::kText: {
        json type = {{"type", "string"}};
        if (shape.least_items > 0) type["minLength"] = shape.least_items;
        if (shape.form != nullptr && !shape.form->pattern.empty()) type["pattern"] = shape.form->pattern;
        return type;
      }
      case ShapeKind::kInteger:
      case ShapeKind::kNumber: {
        json type = {{"type", shape.kind == ShapeKind::kInteger ? "integer" : "number"}};
        if (std::isfinite(shape.least))
          type[shape.open_least ? "exclusiveMinimum" : "minimum"] = number_json(shape.least);
        if (std::isfinite(shape.most)) type["maximum"] = number_json(shape.most);
        return type;
      }
      case ShapeKind::kBoolean:
        return {{"type", "boolean"}};
      case ShapeKind::kChoice: {
        json words = json::array();
        for (const std::string_view word : shape.choices) words.push_back(word);
        return {{"type", "string"}, {"enum", std::move(words)}};
      }
      case ShapeKind::kList: {
        json type = {{"type", "array"}};
        if (shape.least_items > 0) type["minItems"] = shape.least_items;
        type["items"] = of(*shape.item, mode);
        if (shape.one_too) return {{"anyOf", {of(*shape.item, mode), type}}};
        return type;
      }
      case ShapeKind::kMap: {
        json type = {{"type", "object"}};
        if (shape.form != nullptr && !shape.form->pattern.empty())
          type["propertyNames"] = {{"pattern", shape.form->pattern}};
        type["additionalProperties"] = of(*shape.item, mode, Need::kOptional);
        return type;
      }
      case ShapeKind::kObject:
        return reference(*shape.object, mode);
      case ShapeKind::kEither:
        return cases(shape.cases, mode);
      case ShapeKind::kFree:
        return json::object();
    }
    return json::object();
  }

  json cases(std::span<const ObjectCase> all, Mode mode) {
    const ObjectCase& first = all.front();
    if (first.groups.empty()) return reference(*first.object, mode);
    json groups = json::array();
    for (const std::vector<Stated>& group : first.groups) {
      json any = json::array();
      for (const Stated& field : group) any.push_back(there(field, *first.object));
      groups.push_back(any.size() == 1 ? any.front() : json{{"anyOf", any}});
    }
    return {{"type", "object"},
            {"if", groups.size() == 1 ? groups.front() : json{{"allOf", groups}}},
            {"then", reference(*first.object, mode)},
            {"else", cases(all.subspan(1), mode)}};
  }

  // True for objects that have the field, null or not.
  static json there(const Stated& field, const ObjectShape& shape) {
    if (!field.value.empty()) return stated({field}, shape);
    return {{"required", json::array({field.field})}};
  }

  json reference(const ObjectShape& shape, Mode mode) {
    auto [known, added] = names_.try_emplace({&shape, mode});
    if (added) {
      std::string name = definition_name(shape, mode);
      for (int i = 2; definitions_.contains(name); ++i) name = fmt::format("{}-{}", definition_name(shape, mode), i);
      known->second = name;
      definitions_[name] = nullptr;  // keeps the place; tables may refer to each other
      json filled = fields_of(shape, mode);
      definitions_[name] = std::move(filled);
    }
    return {{"$ref", fmt::format("#/definitions/{}", names_.at({&shape, mode}))}};
  }

  json fields_of(const ObjectShape& shape, Mode mode) {
    json type = {{"type", "object"}, {"description", shape.prose}};
    json required = json::array();
    json properties = json::object();
    for (const Field& field : shape.fields) {
      if (field.required) required.push_back(field.name);
      json property = described(field.shape, mode, field.prose, field.required ? Need::kRequired : Need::kOptional);
      if (!field.fallback.empty()) property["default"] = json_value(field.shape, field.fallback);
      properties[std::string(field.name)] = std::move(property);
    }
    if (mode == Mode::kWhole && !required.empty()) type["required"] = std::move(required);
    type["properties"] = std::move(properties);
    type["additionalProperties"] = shape.open;
    if (mode != Mode::kWhole || shape.rules.empty()) return type;
    json all = json::array();
    for (const FieldRule& rule : shape.rules) all.push_back(rule_json(rule, shape));
    type["allOf"] = std::move(all);
    return type;
  }

  static json rule_json(const FieldRule& rule, const ObjectShape& shape) {
    json groups = json::array();
    for (const auto& group : rule.groups) groups.push_back(stated(group, shape));
    switch (rule.kind) {
      case FieldRule::Kind::kExactlyOne:
        return {{"oneOf", std::move(groups)}};
      case FieldRule::Kind::kAtLeastOne:
        return {{"anyOf", std::move(groups)}};
      case FieldRule::Kind::kNeeds:
        return {{"if", stated({rule.when}, shape)}, {"then", groups.front()}};
      case FieldRule::Kind::kExcludes: {
        const json none = {{"not", groups.size() == 1 ? groups.front() : json{{"anyOf", groups}}}};
        if (rule.when.field.empty()) return none;
        return {{"if", stated({rule.when}, shape)}, {"then", none}};
      }
    }
    return json::object();
  }

  // True for objects in which all of these are stated.
  static json stated(const std::vector<Stated>& fields, const ObjectShape& shape) {
    json required = json::array();
    json properties = json::object();
    for (const Stated& item : fields) {
      required.push_back(item.field);
      const Field* field = shape.find(item.field);
      if (field == nullptr) continue;
      const std::string name(item.field);
      if (!item.value.empty())
        properties[name] = {{"const", json_value(field->shape, item.value)}};
      else if (field->shape.kind == ShapeKind::kList)
        properties[name] = {{"type", "array"}, {"minItems", 1}};
      else if (field->shape.kind == ShapeKind::kText)
        properties[name] = {{"type", "string"}, {"minLength", 1}};
      else if (field->shape.nullable)
        properties[name] = {{"not", {{"type", "null"}}}};
    }
    json result = {{"required", std::move(required)}};
    if (!properties.empty()) result["properties"] = std::move(properties);
    return result;
  }

  json definitions_ = json::object();
  std::map<std::pair<const ObjectShape*, Mode>, std::string> names_;
};

}  // namespace

json json_value(const Shape& shape, std::string_view written) {
  switch (shape.kind) {
    case ShapeKind::kInteger: {
      int64_t value = 0;
      std::from_chars(written.data(), written.data() + written.size(), value);
      return value;
    }
    case ShapeKind::kNumber: {
      double value = 0;
      std::from_chars(written.data(), written.data() + written.size(), value);
      return value;
    }
    case ShapeKind::kBoolean:
      return written == "true";
    default:
      return written;
  }
}

json json_schema(FileKind kind) {
  return Writer().document(file_shape(kind));
}

std::string json_schema_text(FileKind kind) {
  return json_schema(kind).dump(2) + "\n";
}

}  // namespace sweep::schema
