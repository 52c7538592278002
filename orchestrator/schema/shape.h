// The description of every field of every file: one table from which decoding, diagnostics, "allowed here" lists and
// reference documentation come.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

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
  kFree,    // anything; meaning belongs to an engine
};

// A form that text must have, with its name for messages: "40 hexadecimal digits".
struct TextForm {
  std::string_view name;
  bool (*matches)(std::string_view text) = nullptr;
};

struct Shape {
  ShapeKind kind = ShapeKind::kText;
  bool nullable = false;  // an empty value counts as absent
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open_least = false;  // `least` itself is excluded
  size_t least_items = 0;   // of a list; of a text: bytes
  std::span<const std::string_view> choices = {};
  const TextForm* form = nullptr;
  std::shared_ptr<const Shape> item = {};
  const ObjectShape* object = nullptr;

  Shape or_null() && {
    nullable = true;
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
};

struct ObjectShape {
  std::string_view name;  // "a search-space entry", for messages
  std::string_view prose;
  std::vector<Field> fields;

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
inline Shape free_form() {
  return {.kind = ShapeKind::kFree};
}

enum class Need : uint8_t { kOptional, kRequired };

// A field that is checked but not kept.
inline Field unbound(std::string_view name, Shape shape, std::string_view prose, Need need = Need::kOptional) {
  return {name, std::move(shape), need == Need::kRequired, prose, nullptr};
}

}  // namespace sweep::schema
