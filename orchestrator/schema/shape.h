// The description of every field of every file: one table from which decoding, diagnostics, "allowed here" lists, the
// JSON Schema for editors (json_schema.h) and the reference pages (reference.h) come.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "orchestrator/diag/rules.h"
#include "orchestrator/schema/choices.h"
#include "orchestrator/schema/located.h"
#include "orchestrator/yaml/node.h"

namespace sweep::schema {

class Decoder;
struct ObjectShape;

enum class ShapeKind : uint8_t {
  kText,
  kInteger,
  kNumber,
  kBoolean,
  kChoice,  // one of a closed set of words
  kList,    // of `item`
  kMap,     // from free names to `item`
  kObject,  // fields of `object`
  kEither,  // fields of the first of `cases` that holds
  kFree,    // anything; meaning belongs to an engine
};

// A form that text must have, with its name for messages: "40 hexadecimal digits".
struct TextForm {
  std::string_view name;
  bool (*matches)(std::string_view text) = nullptr;
  std::string_view pattern = {};  // accepts the same texts; a regular expression of ECMA-262, for editors
  std::string_view help = {};     // what to write instead
};

// A field that is written and not null or an empty list; with a value, one that has this value.
struct Stated {
  std::string_view field;
  std::string_view value = {};
};

// Which fields a mapping has where that depends on some of them: those of `object` where at least one of each group is
// there (a group of one field and a value: has this value). The last of several cases has no groups.
struct ObjectCase {
  std::vector<std::vector<Stated>> groups;
  const ObjectShape* object = nullptr;
};

struct Shape {
  ShapeKind kind = ShapeKind::kText;
  bool nullable = false;  // an empty value counts as absent
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open_least = false;     // `least` itself is excluded
  bool range_by_rule = false;  // a rule with better words checks the range; decoding does not
  bool json_number = false;    // JSON's forms count too: 1e-05
  bool one_too = false;        // a list of one item may be written as the item
  size_t least_items = 0;      // of a list; of a text: bytes
  std::span<const std::string_view> choices = {};
  const TextForm* form = nullptr;  // of a text; of a map: of its names
  std::shared_ptr<const Shape> item = {};
  const ObjectShape* object = nullptr;
  std::vector<ObjectCase> cases = {};

  Shape or_null() && {
    nullable = true;
    return std::move(*this);
  }
  Shape ranged_by_rule() && {
    range_by_rule = true;
    return std::move(*this);
  }
  Shape or_one() && {
    one_too = true;
    return std::move(*this);
  }
  Shape named_by(const TextForm& names) && {
    form = &names;
    return std::move(*this);
  }
};

struct Field {
  std::string_view name;
  Shape shape;
  bool required = false;
  std::string_view prose;  // one line for the reference page and for editors
  // Decodes the value into the member that the field is bound to; null: the value is checked, not kept.
  void (*store)(Decoder& decoder, const yaml::Node& node, const Field& field, void* object) = nullptr;
  std::string_view fallback = {};  // what an absent field means, as it would be written; empty: nothing

  Field by_default(std::string_view written) && {
    fallback = written;
    return std::move(*this);
  }
};

// A rule over the fields of one object, as far as editors can be told. Whoever reports it has the better words; the
// tests hold both against the same files.
struct FieldRule {
  enum class Kind : uint8_t {
    kExactlyOne,  // one of the groups is stated as a whole, and no second one
    kAtLeastOne,  // one of the groups is stated as a whole
    kNeeds,       // where `when` is stated, so is the whole first group
    kExcludes,    // where `when` is stated (or always), nothing of the groups is
  };
  Kind kind = Kind::kExactlyOne;
  diag::RuleId rule;
  std::vector<std::vector<Stated>> groups;
  Stated when = {};
};

struct ObjectShape {
  std::string_view name;  // "a search-space entry", for messages
  std::string_view prose;
  std::vector<Field> fields;
  std::vector<FieldRule> rules = {};
  bool open = false;  // further fields are allowed and belong to whoever wrote them

  const Field* find(std::string_view field_name) const {
    for (const Field& field : fields)
      if (field.name == field_name) return &field;
    return nullptr;
  }
};

// Makers of shapes, so that tables read like a description.
inline Shape text(const TextForm* form = nullptr) {
  return {.kind = ShapeKind::kText, .least_items = 1, .form = form};
}
inline Shape any_text() {
  return {.kind = ShapeKind::kText};
}
inline Shape integer(double least = -std::numeric_limits<double>::infinity(),
                     double most = std::numeric_limits<double>::infinity()) {
  return {.kind = ShapeKind::kInteger, .least = least, .most = most};
}
inline Shape number(double least = -std::numeric_limits<double>::infinity(),
                    double most = std::numeric_limits<double>::infinity()) {
  return {.kind = ShapeKind::kNumber, .least = least, .most = most};
}
// Numbers greater than 0, up to `most`.
inline Shape positive_number(double most = std::numeric_limits<double>::infinity()) {
  return {.kind = ShapeKind::kNumber, .least = 0, .most = most, .open_least = true};
}
inline Shape boolean() {
  return {.kind = ShapeKind::kBoolean};
}
inline Shape choice(std::span<const std::string_view> words) {
  return {.kind = ShapeKind::kChoice, .choices = words};
}
template <class E>
Shape choice_of() {
  return choice(ChoiceNames<E>::kNames);
}
inline Shape list(Shape item, size_t least_items = 0) {
  return {.kind = ShapeKind::kList, .least_items = least_items, .item = std::make_shared<const Shape>(std::move(item))};
}
inline Shape map(Shape item) {
  return {.kind = ShapeKind::kMap, .item = std::make_shared<const Shape>(std::move(item))};
}
inline Shape object(const ObjectShape& shape) {
  return {.kind = ShapeKind::kObject, .object = &shape};
}
inline Shape either(std::vector<ObjectCase> cases) {
  return {.kind = ShapeKind::kEither, .cases = std::move(cases)};
}
inline Shape free_form() {
  return {.kind = ShapeKind::kFree};
}

enum class Need : uint8_t { kOptional, kRequired };

// A field that is checked but not kept.
inline Field unbound(std::string_view name, Shape shape, std::string_view prose, Need need = Need::kOptional) {
  return {name, std::move(shape), need == Need::kRequired, prose, nullptr};
}

}  // namespace sweep::schema
