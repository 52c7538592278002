#include "orchestrator/yaml/parse.h"

#include <fmt/format.h>

#include <utility>

#include "orchestrator/diag/rules/yaml.h"
#include "orchestrator/yaml/library_reader.h"
#include "orchestrator/yaml/plain_reader.h"
#include "orchestrator/yaml/prescan.h"

namespace sweep::yaml {

namespace {

namespace rule = diag::rule;

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
  std::optional<Node> root = read_plain(*readable, limits);
  if (!root) root = read_with_library(*document, *std::move(readable), limits, out);
  if (!root) return nullptr;
  document->set_root(*std::move(root));
  return document;
}

}  // namespace sweep::yaml
