#include "orchestrator/schema/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

namespace sweep::schema {

namespace {

std::string number_text(double value) {
  return std::floor(value) == value && std::fabs(value) < 1e15 ? fmt::format("{}", static_cast<int64_t>(value))
                                                               : fmt::format("{}", value);
}

std::string without_article(std::string_view name) {
  for (const std::string_view article : {"a ", "an ", "the "})
    if (name.starts_with(article)) return std::string(name.substr(article.size()));
  return std::string(name);
}

std::string heading(const ObjectShape& shape) {
  std::string text = without_article(shape.name);
  if (text.front() >= 'a' && text.front() <= 'z') text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

// GitHub's anchor of a heading: lower case, blanks to hyphens, punctuation dropped.
std::string anchor(const ObjectShape& shape) {
  std::string result;
  for (const char c : heading(shape)) {
    if (c >= 'A' && c <= 'Z')
      result += static_cast<char>(c - 'A' + 'a');
    else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')
      result += c;
    else if (c == ' ')
      result += '-';
  }
  return result;
}

// Text that stays inside its table cell.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string range_text(const Shape& shape) {
  const bool low = std::isfinite(shape.least);
  const bool high = std::isfinite(shape.most);
  const std::string_view from = shape.open_least ? "more than " : "";
  if (low && high) return fmt::format(", {}{} to {}", from, number_text(shape.least), number_text(shape.most));
  if (low) return fmt::format(", {} {}", shape.open_least ? "more than" : "at least", number_text(shape.least));
  if (high) return fmt::format(", at most {}", number_text(shape.most));
  return {};
}

class Page {
 public:
  explicit Page(size_t level) : marks_(level, '#') {}

  std::string write(const FileShape& file) {
    out_ = fmt::format("{}\n\n", file.prose);
    if (file.root.kind != ShapeKind::kObject) out_ += fmt::format("The file is a {}.\n\n", type(file.root));
    if (file.has_variants)
      out_ += fmt::format(
          "The file is one {}, or several variants of one: `base` holds a recipe, each `override_NAME` what a variant "
          "changes (mappings are merged, lists replaced, null deletes), each `zip_override_NAME` lists of one length "
          "with one item for each variant.\n\n",
          type(file.root));
    if (file.root.kind == ShapeKind::kObject) type(file.root);
    while (!open_.empty()) {
      const ObjectShape* shape = open_.front();
      open_.pop_front();
      section(*shape);
    }
    while (out_.ends_with("\n\n")) out_.pop_back();
    return out_;
  }

 private:
  void visit(const ObjectShape& shape) {
    if (std::find(seen_.begin(), seen_.end(), &shape) != seen_.end()) return;
    seen_.push_back(&shape);
    open_.push_back(&shape);
  }

  std::string link(const ObjectShape& shape) {
    visit(shape);
    return fmt::format("[{}](#{})", without_article(shape.name), anchor(shape));
  }

  std::string type(const Shape& shape) {
    std::string text = plain(shape);
    if (shape.nullable) text += text.find(',') == std::string::npos ? " or null" : ", or null";
    return text;
  }

  std::string plain(const Shape& shape) {
    switch (shape.kind) {
      case ShapeKind::kText:
        if (shape.form != nullptr) return fmt::format("text: {}", shape.form->name);
        return shape.least_items > 0 ? "text" : "text, may be empty";
      case ShapeKind::kInteger:
        return "integer" + range_text(shape);
      case ShapeKind::kNumber:
        return "number" + range_text(shape);
      case ShapeKind::kBoolean:
        return "true or false";
      case ShapeKind::kChoice: {
        std::string words;
        for (const std::string_view word : shape.choices)
          words += fmt::format("{}`{}`", words.empty() ? "" : ", ", word);
        return words;
      }
      case ShapeKind::kList:
        if (shape.one_too) return fmt::format("{}, or a list of them", type(*shape.item));
        return fmt::format("{}list of {}", shape.least_items > 0 ? "non-empty " : "", type(*shape.item));
      case ShapeKind::kMap:
        return fmt::format(
            "mapping{} to {}",
            shape.form != nullptr ? fmt::format(" from {}", shape.form->name) : std::string(" from names"),
            type(*shape.item));
      case ShapeKind::kObject:
        return link(*shape.object);
      case ShapeKind::kEither: {
        std::string text;
        for (const ObjectCase& one : shape.cases)
          text += fmt::format("{}{}{}", text.empty() ? "" : ", or ", link(*one.object), case_text(one));
        return text;
      }
      case ShapeKind::kFree:
        return "anything";
    }
    return {};
  }

  void section(const ObjectShape& shape) {
    out_ += fmt::format("{} {}\n\n{}{}\n\n", marks_, heading(shape), shape.prose,
                        shape.open ? " Further fields are allowed." : "");
    out_ += "| field | value | default | meaning |\n| --- | --- | --- | --- |\n";
    for (const Field& field : shape.fields) {
      const std::string need = field.required           ? "required"
                               : field.fallback.empty() ? ""
                                                        : fmt::format("`{}`", field.fallback);
      out_ += fmt::format("| `{}` | {} | {} | {} |\n", field.name, cell(type(field.shape)), need, cell(field.prose));
    }
    out_ += "\n";
    for (const FieldRule& rule : shape.rules)
      out_ += fmt::format("- {} (`{}`)\n", rule_text(rule), rule.rule.info().slug);
    if (!shape.rules.empty()) out_ += "\n";
  }

  // " (with `a` or `b`, and `c: 1`)"
  static std::string case_text(const ObjectCase& one) {
    if (one.groups.empty()) return {};
    std::vector<std::string> groups;
    for (const auto& group : one.groups) {
      std::vector<std::string> any;
      for (const Stated& stated : group) any.push_back(stated_text(stated));
      groups.push_back(joined(any, " or "));
    }
    return fmt::format(" (with {})", joined(groups, ", and "));
  }

  static std::string stated_text(const Stated& stated) {
    return stated.value.empty() ? fmt::format("`{}`", stated.field)
                                : fmt::format("`{}: {}`", stated.field, stated.value);
  }

  static std::string joined(const std::vector<std::string>& parts, std::string_view last) {
    std::string result;
    for (size_t i = 0; i < parts.size(); ++i)
      result += fmt::format("{}{}", i == 0 ? "" : i + 1 == parts.size() ? last : ", ", parts[i]);
    return result;
  }

  static std::string group_text(const std::vector<Stated>& group) {
    std::vector<std::string> parts;
    for (const Stated& stated : group) parts.push_back(stated_text(stated));
    return joined(parts, " and ");
  }

  static std::string rule_text(const FieldRule& rule) {
    std::vector<std::string> groups;
    for (const auto& group : rule.groups) groups.push_back(group_text(group));
    switch (rule.kind) {
      case FieldRule::Kind::kExactlyOne:
        return fmt::format("Either {}", joined(groups, ", or "));
      case FieldRule::Kind::kAtLeastOne:
        return fmt::format("At least one of {}", joined(groups, " and "));
      case FieldRule::Kind::kNeeds:
        return fmt::format("{} needs {}", stated_text(rule.when), groups.front());
      case FieldRule::Kind::kExcludes:
        if (rule.when.field.empty()) return fmt::format("Not {}", joined(groups, " or "));
        return fmt::format("{} excludes {}", stated_text(rule.when), joined(groups, " and "));
    }
    return {};
  }

  std::string marks_;
  std::string out_;
  std::deque<const ObjectShape*> open_;
  std::vector<const ObjectShape*> seen_;
};

}  // namespace

std::string reference_page(FileKind kind, size_t level) {
  return Page(level).write(file_shape(kind));
}

}  // namespace sweep::schema
