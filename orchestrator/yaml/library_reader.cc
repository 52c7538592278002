#include "orchestrator/yaml/library_reader.h"

#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <istream>
#include <streambuf>

#include "orchestrator/diag/rules/yaml.h"
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

}  // namespace

std::optional<Node> read_with_library(const Document& document, std::string text, const Limits& limits,
                                      diag::Diagnostics& out) {
  const auto report = [&](const YAML::Mark& mark, const std::string& message) {
    const auto size = static_cast<uint32_t>(text.size());
    const uint32_t at = mark.pos < 0 ? size : std::min(static_cast<uint32_t>(mark.pos), size);
    out.add(diag::make_at(rule::yaml_syntax, document.span({at, at + 1}), message, advice(message)));
  };
  TreeBuilder builder(document, text, limits, out);
  try {
    ViewBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.take_root();
  } catch (const StopParsing&) {
  } catch (const YAML::Exception& error) {
    report(error.mark, "not valid YAML: " + error.msg);
  } catch (const std::exception& error) {
    report(YAML::Mark::null_mark(), std::string("not valid YAML: ") + error.what());
  }
  return std::nullopt;
}

}  // namespace sweep::yaml
