#include "orchestrator/yaml/parse.h"

#include <fmt/format.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <istream>
#include <streambuf>
#include <utility>

#include "orchestrator/diag/rules/yaml.h"
#include "orchestrator/yaml/prescan.h"
#include "orchestrator/yaml/tree_builder.h"

namespace sweep::yaml {

namespace {

namespace rule = diag::rule;

// Reads a string without copying it, as the library's only input is a stream.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string& text) { setg(text.data(), text.data(), text.data() + text.size()); }
};

struct Advice {
  std::string_view part;  // of the library's message
  std::string_view help;
};
constexpr auto kAdvice = std::to_array<Advice>({
    {"illegal map value", "quote a value that contains \": \", and check the indentation"},
    {"end of map flow", "close the mapping with \"}\" and separate its fields with commas"},
    {"end of sequence flow", "close the list with \"]\" and separate its items with commas"},
    {"end of map not found", "check the indentation: fields of one mapping begin in the same column"},
    {"end of sequence not found", "check the indentation: items of one list begin in the same column"},
    {"illegal block entry", "a list item \"- \" cannot begin here; check the indentation"},
    {"referenced anchor", "define the anchor (&name) before its first alias (*name)"},
    {"alias", "quote a value that begins with \"*\""},
    {"anchor", "quote a value that begins with \"&\""},
    {"unknown token", "quote a value that begins with a special character such as \"@\", \"`\" or \"%\""},
});

std::string advice(std::string_view message) {
  const auto found = std::find_if(kAdvice.begin(), kAdvice.end(),
                                  [&](const Advice& a) { return message.find(a.part) != std::string_view::npos; });
  return found == kAdvice.end() ? std::string() : std::string(found->help);
}

// Runs the library over `text`; false if it stopped early, with the reason reported.
bool build(const Document& document, std::string& text, TreeBuilder& builder, diag::Diagnostics& out) {
  const auto report = [&](const YAML::Mark& mark, const std::string& message) {
    const auto size = static_cast<uint32_t>(text.size());
    const uint32_t at = mark.pos < 0 ? size : std::min(static_cast<uint32_t>(mark.pos), size);
    out.add(diag::make_at(rule::yaml_syntax, document.span({at, at + 1}), message, advice(message)));
  };
  try {
    ViewBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    return true;
  } catch (const StopParsing&) {
  } catch (const YAML::Exception& error) {
    report(error.mark, "not valid YAML: " + error.msg);
  } catch (const std::exception& error) {
    report(YAML::Mark::null_mark(), std::string("not valid YAML: ") + error.what());
  }
  return false;
}

bool fits(const Document& document, const Limits& limits, diag::Diagnostics& out) {
  if (document.text().size() <= limits.bytes) return true;
  out.add(diag::make_at(rule::yaml_too_large, {document.name()},
                        fmt::format("the file has {} bytes, expected at most {}", document.text().size(), limits.bytes),
                        "split the file, or check that the right file is named"));
  return false;
}

}  // namespace

std::shared_ptr<Document> parse(std::string name, std::string text, diag::Diagnostics& out, const Limits& limits) {
  auto document = std::make_shared<Document>(std::move(name), std::move(text));
  if (!fits(*document, limits, out)) return nullptr;
  std::optional<std::string> readable = prescan(*document, out);
  if (!readable) return nullptr;
  TreeBuilder builder(*document, *readable, limits, out);
  if (!build(*document, *readable, builder, out)) return nullptr;
  document->set_root(builder.take_root());
  return document;
}

}  // namespace sweep::yaml
