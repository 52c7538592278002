#include "orchestrator/schema/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/schema.h"

namespace sweep::schema {

namespace {

using diag::RuleId;
namespace rule = diag::rule;

constexpr size_t kMostListed = 40;  // names in an "allowed here" list

std::string quoted_list(std::span<const std::string_view> words) {
  std::string result;
  for (const std::string_view word : words) result += fmt::format("{}\"{}\"", result.empty() ? "" : ", ", word);
  return result;
}

std::string number_text(double value) {
  return std::floor(value) == value && std::fabs(value) < 1e15 ? fmt::format("{}", static_cast<int64_t>(value))
                                                               : fmt::format("{}", value);
}

// A number in JSON's form with an exponent, which the strict reading of YAML refuses.
std::optional<double> json_number(const yaml::Node& node) {
  if (!node.is_scalar() || node.quoted) return std::nullopt;
  double value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto parsed = std::from_chars(node.text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

void Decoder::report(RuleId rule, yaml::Range where, std::string message, std::string help) {
  diag::Diagnostic d = diag::make_at(rule, document_.span(where), std::move(message), std::move(help));
  d.path = path();
  out_.add(std::move(d));
}

std::string Decoder::path() const {
  std::string result;
  for (const Part& part : path_) {
    if (part.index >= 0)
      result += fmt::format("[{}]", part.index);
    else
      result += fmt::format("{}{}", result.empty() ? "" : ".", part.name);
  }
  return result;
}

std::string Decoder::label() const {
  std::string indices;
  for (auto part = path_.rbegin(); part != path_.rend(); ++part) {
    if (part->index < 0) return fmt::format("\"{}{}\"", part->name, indices);
    indices = fmt::format("[{}]{}", part->index, indices);
  }
  return indices.empty() ? "the file" : fmt::format("item {}", indices);
}

void Decoder::wrong_type(const yaml::Node& node, const yaml::ScalarProblem& problem) {
  report(rule::schema_wrong_type, node.where,
         fmt::format("{} must be {}, found {}", label(), problem.expected, problem.found), problem.help);
}

bool Decoder::is_map(const yaml::Node& node) {
  if (node.is_map()) return true;
  wrong_type(node, {"a mapping", yaml::describe(node), {}});
  return false;
}

bool Decoder::is_list(const yaml::Node& node, const Shape& shape) {
  if (is_absent(node, shape)) return false;
  if (!node.is_sequence()) {
    wrong_type(node, {"a list", yaml::describe(node),
                      node.is_scalar() ? fmt::format("write [{}]", node.text.substr(0, 40)) : std::string()});
    return false;
  }
  if (node.items.size() < shape.least_items) {
    report(rule::schema_out_of_range, node.where,
           fmt::format("{} has {} items, expected at least {}", label(), node.items.size(), shape.least_items));
    return false;
  }
  return true;
}

bool Decoder::in_range(double value, const yaml::Node& node, const Shape& shape) {
  if (shape.range_by_rule) return true;
  const bool low = shape.open_least ? value <= shape.least : value < shape.least;
  if (!low && value <= shape.most) return true;
  std::string expected;
  if (shape.least == shape.most)
    expected = number_text(shape.least);
  else if (std::isinf(shape.most))
    expected = fmt::format("{} {}", shape.open_least ? "more than" : "at least", number_text(shape.least));
  else if (std::isinf(shape.least))
    expected = fmt::format("at most {}", number_text(shape.most));
  else
    expected = fmt::format("{} {} and at most {}", shape.open_least ? "more than" : "at least",
                           number_text(shape.least), number_text(shape.most));
  report(rule::schema_out_of_range, node.where, fmt::format("{} is {}, expected {}", label(), node.text, expected));
  return false;
}

std::optional<size_t> Decoder::read_choice(const yaml::Node& node, const Shape& shape) {
  if (is_absent(node, shape)) return std::nullopt;
  if (!node.is_scalar()) {
    wrong_type(node, {fmt::format("one of {}", quoted_list(shape.choices)), yaml::describe(node), {}});
    return std::nullopt;
  }
  const auto found = std::find(shape.choices.begin(), shape.choices.end(), node.text);
  if (found != shape.choices.end()) return static_cast<size_t>(found - shape.choices.begin());
  const auto nearest = base::nearest(node.text, shape.choices);
  report(rule::schema_unknown_value, node.where,
         fmt::format("{} is {}, expected one of {}", label(), yaml::describe(node), quoted_list(shape.choices)),
         nearest ? fmt::format("did you mean \"{}\"?", *nearest) : std::string());
  return std::nullopt;
}

void Decoder::read(const yaml::Node& node, const Shape& shape, Located<std::string>& out) {
  if (shape.kind == ShapeKind::kChoice) {
    if (const auto index = read_choice(node, shape)) out = {std::string(shape.choices[*index]), node.where, true};
    return;
  }
  if (is_absent(node, shape)) return;
  out.where = node.where;
  auto decoded = yaml::decode_text(node);
  if (!decoded) return wrong_type(node, decoded.error());
  if (decoded->size() < shape.least_items)
    return report(rule::schema_out_of_range, node.where, fmt::format("{} is empty", label()));
  if (shape.form != nullptr && !shape.form->matches(*decoded))
    return report(rule::schema_malformed_text, node.where,
                  fmt::format("{} is {}, expected {}", label(), yaml::describe(node), shape.form->name),
                  std::string(shape.form->help));
  out = {*std::move(decoded), node.where, true};
}

void Decoder::read(const yaml::Node& node, const Shape& shape, Located<int64_t>& out) {
  if (is_absent(node, shape)) return;
  out.where = node.where;
  const auto decoded = yaml::decode_integer(node);
  if (!decoded) return wrong_type(node, decoded.error());
  if (in_range(static_cast<double>(*decoded), node, shape)) out = {*decoded, node.where, true};
}

void Decoder::read(const yaml::Node& node, const Shape& shape, Located<double>& out) {
  if (is_absent(node, shape)) return;
  out.where = node.where;
  const auto decoded = yaml::decode_number(node);
  if (!decoded) {
    const auto json = shape.json_number ? json_number(node) : std::nullopt;
    if (!json) return wrong_type(node, decoded.error());
    if (in_range(*json, node, shape)) out = {*json, node.where, true};
  } else if (in_range(*decoded, node, shape)) {
    out = {*decoded, node.where, true};
  }
}

void Decoder::read(const yaml::Node& node, const Shape& shape, Located<bool>& out) {
  if (is_absent(node, shape)) return;
  out.where = node.where;
  const auto decoded = yaml::decode_boolean(node);
  if (!decoded) return wrong_type(node, decoded.error());
  out = {*decoded, node.where, true};
}

void Decoder::read(const yaml::Node& node, const Shape& shape, std::vector<NamedText>& out) {
  each_named(node, shape, [&](const yaml::Entry& entry) {
    NamedText named{entry.key, entry.key_where, {}};
    read(entry.value, *shape.item, named.value);
    out.push_back(std::move(named));
  });
}

void Decoder::each_named(const yaml::Node& node, const Shape& shape,
                         const std::function<void(const yaml::Entry&)>& read) {
  if (is_absent(node, shape) || !is_map(node)) return;
  for (const yaml::Entry& entry : node.entries) {
    const Scope scope(*this, entry.key, entry.key_where);
    if (shape.form != nullptr) check_name(entry, *shape.form);
    read(entry);
  }
}

void Decoder::read(const yaml::Node& node, const Shape& shape, const yaml::Node*& out) {
  check(node, shape);
  if (!is_absent(node, shape)) out = &node;
}

void Decoder::check(const yaml::Node& node, const Shape& shape) {
  if (is_absent(node, shape)) return;
  switch (shape.kind) {
    case ShapeKind::kText:
    case ShapeKind::kChoice: {
      Located<std::string> ignored;
      return read(node, shape, ignored);
    }
    case ShapeKind::kInteger: {
      Located<int64_t> ignored;
      return read(node, shape, ignored);
    }
    case ShapeKind::kNumber: {
      Located<double> ignored;
      return read(node, shape, ignored);
    }
    case ShapeKind::kBoolean: {
      Located<bool> ignored;
      return read(node, shape, ignored);
    }
    case ShapeKind::kList:
      if (shape.one_too && !node.is_sequence()) return check(node, *shape.item);
      if (!is_list(node, shape)) return;
      for (size_t i = 0; i < node.items.size(); ++i) {
        const Scope scope(*this, i, node.items[i].where);
        check(node.items[i], *shape.item);
      }
      return;
    case ShapeKind::kMap:
      return each_named(node, shape, [&](const yaml::Entry& entry) { check(entry.value, *shape.item); });
    case ShapeKind::kObject:
    case ShapeKind::kEither:
      return read_object(node, fields_of(node, shape), nullptr);
    case ShapeKind::kFree:
      return;
  }
}

void Decoder::check_name(const yaml::Entry& entry, const TextForm& form) {
  if (!form.matches(entry.key))
    report(rule::schema_malformed_text, entry.key_where, fmt::format("name \"{}\", expected {}", entry.key, form.name),
           std::string(form.help));
}

const ObjectShape& Decoder::fields_of(const yaml::Node& node, const Shape& shape) {
  if (shape.kind != ShapeKind::kEither) return *shape.object;
  const auto is_there = [&](const Stated& stated) {
    const yaml::Node* value = node.find(stated.field);
    return value != nullptr && (stated.value.empty() || (value->is_scalar() && value->text == stated.value));
  };
  const auto holds = [&](const ObjectCase& one) {
    return std::all_of(one.groups.begin(), one.groups.end(), [&](const std::vector<Stated>& group) {
      return std::any_of(group.begin(), group.end(), is_there);
    });
  };
  return *std::find_if(shape.cases.begin(), shape.cases.end(), holds)->object;
}

std::optional<std::string> Decoder::report_unknown(const yaml::Entry& entry, const ObjectShape& shape) {
  std::vector<std::string_view> names;
  for (const Field& field : shape.fields) names.push_back(field.name);
  std::sort(names.begin(), names.end());
  std::string help;
  const auto nearest = base::nearest(entry.key, names);
  if (nearest) help = fmt::format("did you mean \"{}\"? ", *nearest);
  help += "allowed here: ";
  for (size_t i = 0; i < names.size() && i < kMostListed; ++i)
    help += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  if (names.size() > kMostListed) help += ", ...";
  const Scope scope(*this, entry.key, entry.key_where);
  report(rule::schema_unknown_field, entry.key_where, fmt::format("unknown field \"{}\" in {}", entry.key, shape.name),
         std::move(help));
  return nearest;
}

void Decoder::read_object(const yaml::Node& node, const ObjectShape& shape, void* object) {
  if (!is_map(node)) return;
  std::vector<std::string> meant;  // a misspelt field is not reported as missing too
  for (const yaml::Entry& entry : node.entries) {
    const Field* field = shape.find(entry.key);
    if (field == nullptr) {
      if (shape.open) continue;
      if (auto nearest = report_unknown(entry, shape)) meant.push_back(*std::move(nearest));
      continue;
    }
    const Scope scope(*this, entry.key, entry.key_where);
    if (object != nullptr && field->store != nullptr)
      field->store(*this, entry.value, *field, object);
    else
      check(entry.value, field->shape);
  }
  const yaml::Range where = path_.empty() ? node.where : path_.back().where;
  for (const Field& field : shape.fields)
    if (field.required && node.find_entry(field.name) == nullptr &&
        std::find(meant.begin(), meant.end(), field.name) == meant.end())
      report(rule::schema_missing_field, where, fmt::format("{} lacks the field \"{}\"", shape.name, field.name),
             fmt::format("add \"{}\": {}", field.name, field.prose));
}

void check_name_is_text(Decoder& decoder, const yaml::Entry& entry, std::string_view what) {
  const std::string& text = decoder.document().text();
  const size_t begin = entry.key_where.begin;
  if (begin < text.size() && (text[begin] == '"' || text[begin] == '\'')) return;
  const std::string_view other = yaml::mistaken_for(entry.key);
  if (other.empty()) return;
  const Decoder::Scope scope(decoder, entry.key, entry.key_where);
  decoder.report(rule::schema_wrong_type, entry.key_where,
                 fmt::format("{} must be text, found {}, which is {} without quotes", what, entry.key, other),
                 fmt::format("write \"{}\" in quotes", entry.key));
}

}  // namespace sweep::schema
