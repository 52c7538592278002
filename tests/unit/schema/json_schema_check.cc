#include "tests/unit/schema/json_schema_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "orchestrator/yaml/scalar.h"

namespace sweep::test {

namespace {

using Places = std::vector<std::string>;

const std::set<std::string> kAnnotations{"$schema", "title", "description", "default", "definitions"};
const std::set<std::string> kKeywords{"$ref",     "type",    "enum",
                                      "const",    "pattern", "minLength",
                                      "minimum",  "maximum", "exclusiveMinimum",
                                      "minItems", "items",   "properties",
                                      "required", "allOf",   "additionalProperties",
                                      "anyOf",    "oneOf",   "patternProperties",
                                      "not",      "if",      "propertyNames",
                                      "then",     "else"};

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  return false;
}

bool matches(const Json& pattern, const std::string& text) {
  static std::map<std::string, std::regex> known;
  const auto& expression = pattern.get_ref<const std::string&>();
  const auto found = known.try_emplace(expression, expression, std::regex::ECMAScript).first;
  return std::regex_search(text, found->second);
}

class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  Places check(const Json& schema, const Json& value, const std::string& path) const {
    Places found;
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) found.push_back(path + ": not allowed");
      return found;
    }
    if (schema.contains("$ref")) return check(resolve(schema["$ref"]), value, path);
    check_value(schema, value, path, found);
    if (value.is_object()) check_object(schema, value, path, found);
    if (value.is_array()) check_array(schema, value, path, found);
    check_combined(schema, value, path, found);
    return found;
  }

  const Json& resolve(const Json& reference) const {
    return root_.at(Json::json_pointer(reference.get<std::string>().substr(1)));
  }

 private:
  bool accepts(const Json& schema, const Json& value) const { return check(schema, value, "").empty(); }

  void check_value(const Json& schema, const Json& value, const std::string& path, Places& found) const {
    const auto complain = [&](const char* what) { found.push_back(fmt::format("{}: {}", path, what)); };
    if (schema.contains("type")) {
      const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
      if (std::none_of(types.begin(), types.end(), [&](const Json& t) { return has_type(value, t); }))
        complain("wrong type");
    }
    if (schema.contains("const") && schema["const"] != value) complain("not the constant");
    if (schema.contains("enum") &&
        std::none_of(schema["enum"].begin(), schema["enum"].end(), [&](const Json& w) { return w == value; }))
      complain("not one of the words");
    if (value.is_string()) {
      if (schema.contains("minLength") && value.get<std::string>().size() < schema["minLength"]) complain("too short");
      if (schema.contains("pattern") && !matches(schema["pattern"], value)) complain("pattern");
    }
    if (value.is_number()) {
      const auto number = value.get<double>();
      if (schema.contains("minimum") && number < schema["minimum"].get<double>()) complain("too small");
      if (schema.contains("maximum") && number > schema["maximum"].get<double>()) complain("too large");
      if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>())
        complain("too small");
    }
  }

  void check_object(const Json& schema, const Json& value, const std::string& path, Places& found) const {
    if (schema.contains("required"))
      for (const Json& name : schema["required"])
        if (!value.contains(name.get<std::string>()))
          found.push_back(fmt::format("{}: lacks {}", path, name.get<std::string>()));
    for (const auto& [name, item] : value.items()) {
      const std::string below = path + "/" + name;
      bool known = false;
      if (schema.contains("properties") && schema["properties"].contains(name)) {
        known = true;
        append(check(schema["properties"][name], item, below), found);
      }
      if (schema.contains("patternProperties"))
        for (const auto& [pattern, sub] : schema["patternProperties"].items())
          if (matches(pattern, name)) {
            known = true;
            append(check(sub, item, below), found);
          }
      if (!known && schema.contains("additionalProperties"))
        append(check(schema["additionalProperties"], item, below), found);
      if (schema.contains("propertyNames")) append(check(schema["propertyNames"], Json(name), below), found);
    }
  }

  void check_array(const Json& schema, const Json& value, const std::string& path, Places& found) const {
    if (schema.contains("minItems") && value.size() < schema["minItems"]) found.push_back(path + ": too few items");
    if (schema.contains("items"))
      for (size_t i = 0; i < value.size(); ++i)
        append(check(schema["items"], value[i], fmt::format("{}/{}", path, i)), found);
  }

  void check_combined(const Json& schema, const Json& value, const std::string& path, Places& found) const {
    const auto accepted = [&](const char* keyword) {
      return std::count_if(schema[keyword].begin(), schema[keyword].end(),
                           [&](const Json& sub) { return accepts(sub, value); });
    };
    if (schema.contains("allOf"))
      for (const Json& sub : schema["allOf"]) append(check(sub, value, path), found);
    if (schema.contains("anyOf") && accepted("anyOf") == 0) found.push_back(path + ": none of anyOf");
    if (schema.contains("oneOf") && accepted("oneOf") != 1) found.push_back(path + ": not one of oneOf");
    if (schema.contains("not") && accepts(schema["not"], value)) found.push_back(path + ": excluded");
    if (schema.contains("if")) {
      const char* branch = accepts(schema["if"], value) ? "then" : "else";
      if (schema.contains(branch)) append(check(schema[branch], value, path), found);
    }
  }

  static void append(const Places& more, Places& found) { found.insert(found.end(), more.begin(), more.end()); }

  const Json& root_;
};

class SchemaCheck {
 public:
  explicit SchemaCheck(const Json& root) : root_(root) {}

  Places run() {
    walk(root_, "#");
    if (root_.contains("definitions"))
      for (const auto& [name, definition] : root_["definitions"].items()) {
        walk(definition, "#/definitions/" + name);
        if (!used_.contains("#/definitions/" + name)) found_.push_back("unused definition " + name);
      }
    return found_;
  }

 private:
  void walk(const Json& schema, const std::string& path) {
    if (schema.is_boolean()) return;
    if (!schema.is_object()) return found_.push_back(path + ": not a schema");
    for (const auto& [keyword, value] : schema.items()) {
      if (!kKeywords.contains(keyword) && !kAnnotations.contains(keyword))
        found_.push_back(fmt::format("{}: unknown keyword {}", path, keyword));
      if (keyword == "properties" || keyword == "patternProperties")
        for (const auto& [name, sub] : value.items()) walk(sub, path + "/" + name);
      if (keyword == "allOf" || keyword == "anyOf" || keyword == "oneOf")
        for (const Json& sub : value) walk(sub, path + "/" + keyword);
      if (keyword == "items" || keyword == "not" || keyword == "if" || keyword == "then" || keyword == "else" ||
          keyword == "additionalProperties" || keyword == "propertyNames")
        walk(value, path + "/" + keyword);
    }
    check_reference(schema, path);
    if (schema.contains("type") && schema.contains("required"))
      for (const Json& name : schema["required"])
        if (!schema.contains("properties") || !schema["properties"].contains(name.get<std::string>()))
          found_.push_back(fmt::format("{}: {} is required and not described", path, name.get<std::string>()));
    if (schema.contains("default"))
      for (const std::string& problem : Validator(root_).check(schema, schema["default"], path + "/default"))
        found_.push_back(problem);
  }

  void check_reference(const Json& schema, const std::string& path) {
    if (!schema.contains("$ref")) return;
    const std::string target = schema["$ref"];
    used_.insert(target);
    if (schema.size() != 1) found_.push_back(path + ": siblings of $ref are ignored");
    if (!target.starts_with("#/definitions/") || !root_.contains(Json::json_pointer(target.substr(1))))
      found_.push_back(fmt::format("{}: {} leads nowhere", path, target));
  }

  const Json& root_;
  std::set<std::string> used_;
  Places found_;
};

}  // namespace

std::vector<std::string> violations(const Json& schema, const Json& value) {
  return Validator(schema).check(schema, value, "");
}

std::vector<std::string> schema_problems(const Json& schema) {
  return SchemaCheck(schema).run();
}

Json json_of(const yaml::Node& node) {
  switch (node.kind) {
    case yaml::Kind::kNull:
      return nullptr;
    case yaml::Kind::kSequence: {
      Json list = Json::array();
      for (const yaml::Node& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case yaml::Kind::kMap: {
      Json map = Json::object();
      for (const yaml::Entry& entry : node.entries) map[entry.key] = json_of(entry.value);
      return map;
    }
    case yaml::Kind::kScalar:
      break;
  }
  if (node.quoted) return node.text;
  if (const auto integer = yaml::decode_integer(node)) return *integer;
  if (const auto number = yaml::decode_number(node)) return *number;
  if (const auto flag = yaml::decode_boolean(node)) return *flag;
  return node.text;
}

}  // namespace sweep::test
