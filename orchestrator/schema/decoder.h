// Walks a located tree along the field tables: checks everything, keeps what is bound, reports all problems.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/shape.h"
#include "orchestrator/yaml/document.h"
#include "orchestrator/yaml/scalar.h"

namespace sweep::schema {

// One name of a mapping with free names, such as an environment variable.
struct NamedText {
  std::string name;
  yaml::Range name_where;
  Located<std::string> value;
};

class Decoder {
 public:
  Decoder(const yaml::Document& document, diag::Diagnostics& out) : document_(document), out_(out) {}

  // Adds a part to the path while it lives; the name must live as long.
  class Scope {
   public:
    Scope(Decoder& decoder, std::string_view name, yaml::Range where) : decoder_(decoder) {
      decoder_.path_.push_back({name, -1, where});
    }
    Scope(Decoder& decoder, size_t index, yaml::Range where) : decoder_(decoder) {
      decoder_.path_.push_back({{}, static_cast<int64_t>(index), where});
    }
    ~Scope() { decoder_.path_.pop_back(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Decoder& decoder_;
  };

  // Reports at a place, with the path of the value being decoded.
  void report(diag::RuleId rule, yaml::Range where, std::string message, std::string help = {});

  // Checks a value whose content is not kept.
  void check(const yaml::Node& node, const Shape& shape);

  void read(const yaml::Node& node, const Shape& shape, Located<std::string>& out);
  void read(const yaml::Node& node, const Shape& shape, Located<int64_t>& out);
  void read(const yaml::Node& node, const Shape& shape, Located<double>& out);
  void read(const yaml::Node& node, const Shape& shape, Located<bool>& out);
  void read(const yaml::Node& node, const Shape& shape, std::vector<NamedText>& out);
  // Keeps the tree itself; it belongs to the document.
  void read(const yaml::Node& node, const Shape& shape, const yaml::Node*& out);

  template <class E>
  requires std::is_enum_v<E>
  void read(const yaml::Node& node, const Shape& shape, Located<E>& out) {
    if (is_absent(node, shape)) return;
    out.where = node.where;
    if (const auto index = read_choice(node, shape)) out = {static_cast<E>(*index), node.where, true};
  }

  template <class T>
  void read(const yaml::Node& node, const Shape& shape, std::vector<T>& out) {
    if (!is_list(node, shape)) return;
    out.reserve(node.items.size());
    for (size_t i = 0; i < node.items.size(); ++i) {
      const Scope scope(*this, i, node.items[i].where);
      read(node.items[i], *shape.item, out.emplace_back());
    }
  }

  template <class T>
  void read(const yaml::Node& node, const Shape& shape, std::optional<T>& out) {
    if (node.is_null() && shape.nullable) return;
    read(node, shape, out.emplace());
  }

  // Objects keep the range of their value in `where`.
  template <class T>
  requires requires(T t) {
    t.where = yaml::Range{};
  } &&(!requires(T t) { t.present; }) void read(const yaml::Node& node, const Shape& shape, T& out) {
    out.where = node.where;
    read_object(node, *shape.object, &out);
  }

  // Calls `read` for every entry of a mapping with free names, with its name as a part of the path. Names are checked
  // against the shape's form.
  void each_named(const yaml::Node& node, const Shape& shape, const std::function<void(const yaml::Entry&)>& read);

  // The fields of a mapping into the object that the table is bound to.
  void read_object(const yaml::Node& node, const ObjectShape& shape, void* object);

  // Which fields a mapping has, where that depends on one of them.
  static const ObjectShape& fields_of(const yaml::Node& node, const Shape& shape);

  // "entry.scenarios.fixed-seq-len[0]"
  std::string path() const;

  const yaml::Document& document() const { return document_; }

 private:
  struct Part {
    std::string_view name;
    int64_t index = -1;
    yaml::Range where;
  };

  bool is_absent(const yaml::Node& node, const Shape& shape) const { return node.is_null() && shape.nullable; }
  bool is_list(const yaml::Node& node, const Shape& shape);
  bool is_map(const yaml::Node& node);
  void check_name(const yaml::Entry& entry, const TextForm& form);
  bool in_range(double value, const yaml::Node& node, const Shape& shape);
  std::optional<size_t> read_choice(const yaml::Node& node, const Shape& shape);
  // Returns the field that was probably meant.
  std::optional<std::string> report_unknown(const yaml::Entry& entry, const ObjectShape& shape);
  void wrong_type(const yaml::Node& node, const yaml::ScalarProblem& problem);
  std::string label() const;  // the last part of the path, as messages name it

  const yaml::Document& document_;
  diag::Diagnostics& out_;
  std::vector<Part> path_;
};

// A free name must be text for every reader: an unquoted 8, yes or 2026-08-21 is something else to some.
void check_name_is_text(Decoder& decoder, const yaml::Entry& entry, std::string_view what);

namespace detail {
template <class T>
struct MemberOwner;
template <class Owner, class Value>
struct MemberOwner<Value Owner::*> {
  using Type = Owner;
};
}  // namespace detail

// A field bound to a member: field<&Worker::tp>("tp", integer(1), "tensor-parallel size", Need::kRequired).
template <auto Member>
Field field(std::string_view name, Shape shape, std::string_view prose, Need need = Need::kOptional) {
  using Owner = typename detail::MemberOwner<decltype(Member)>::Type;
  return {name, std::move(shape), need == Need::kRequired, prose,
          [](Decoder& decoder, const yaml::Node& node, const Field& self, void* object) {
            decoder.read(node, self.shape, static_cast<Owner*>(object)->*Member);
          }};
}

}  // namespace sweep::schema
