// JSON is nearly a subset of YAML: once the JSON parser has accepted a file, the YAML parser gives the located tree.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/diag/rules/yaml.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::yaml {

namespace {

using diag::RuleId;
namespace rule = diag::rule;

// Accepts everything and remembers where and why parsing failed; counts depth and values.
class SyntaxCheck : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit SyntaxCheck(const Limits& limits) : limits_(limits) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    position_ = position;
    reason_ = error.what();
    return false;
  }

  bool too_deep() const { return depth_ > limits_.depth; }
  bool too_many() const { return values_ > limits_.nodes; }
  std::size_t position() const { return position_; }

  // The library's text without its "[json.exception...] parse error at line 1, column 2: " prefix.
  std::string reason() const {
    const size_t cut = reason_.find(": ");
    return cut == std::string::npos ? reason_ : reason_.substr(cut + 2);
  }

 private:
  bool value() { return ++values_ <= limits_.nodes; }
  bool enter() { return ++depth_ <= limits_.depth && value(); }
  bool leave() {
    --depth_;
    return true;
  }

  const Limits& limits_;
  uint32_t depth_ = 0;
  uint32_t values_ = 0;
  std::size_t position_ = 0;
  std::string reason_;
};

}  // namespace

std::shared_ptr<Document> parse_json(std::string name, std::string text, diag::Diagnostics& out, const Limits& limits) {
  const Document document(name, text);
  const auto fail = [&](RuleId rule, uint32_t at, std::string message) {
    out.add(diag::make_at(rule, document.span({at, at + 1}), std::move(message)));
    return nullptr;
  };
  if (text.size() > limits.bytes)
    return fail(rule::yaml_too_large, 0,
                fmt::format("the file has {} bytes, expected at most {}", text.size(), limits.bytes));
  SyntaxCheck check(limits);
  if (!nlohmann::json::sax_parse(text, &check)) {
    const auto at = static_cast<uint32_t>(std::min(check.position() == 0 ? 0 : check.position() - 1, text.size()));
    if (check.too_deep())
      return fail(rule::yaml_too_deep, 0, fmt::format("nested deeper than {} levels", limits.depth));
    if (check.too_many())
      return fail(rule::yaml_too_large, 0, fmt::format("more than {} values in one file", limits.nodes));
    return fail(rule::yaml_json_syntax, at, "not valid JSON: " + check.reason());
  }
  // Blanks between tokens only: inside strings the JSON parser has refused both.
  std::replace(text.begin(), text.end(), '\t', ' ');
  std::replace(text.begin(), text.end(), '\r', ' ');
  return parse(std::move(name), std::move(text), out, limits);
}

}  // namespace sweep::yaml
