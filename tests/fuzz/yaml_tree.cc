// Bytes -> located tree: no crash, bounded, places inside the text, and both readers agree.
#include <cstdint>
#include <string>

#include "orchestrator/yaml/library_reader.h"
#include "orchestrator/yaml/parse.h"
#include "orchestrator/yaml/plain_reader.h"
#include "orchestrator/yaml/prescan.h"
#include "tests/fuzz/require.h"
#include "tests/support/same_tree.h"

namespace {

using namespace sweep;

void check_places(const yaml::Node& node, uint32_t size, uint32_t depth) {
  const auto inside = [&](yaml::Range range) { return range.begin <= range.end && range.end <= size + 1; };
  fuzz::require(inside(node.where), "a value lies outside the text");
  fuzz::require(depth <= yaml::Limits{}.depth, "the tree is deeper than the limit");
  for (const yaml::Node& item : node.items) check_places(item, size, depth + 1);
  for (const yaml::Entry& entry : node.entries) {
    fuzz::require(inside(entry.key_where), "a key lies outside the text");
    check_places(entry.value, size, depth + 1);
  }
}

void check_document(const std::shared_ptr<yaml::Document>& document, const diag::Diagnostics& out) {
  fuzz::require(document != nullptr || out.has_errors(), "nothing was read and nothing was said");
  for (const diag::Diagnostic& d : out.items()) {
    fuzz::require(d.where && d.where->file == "x.yaml", "a finding has no place");
    fuzz::require(d.where->line == 0 || d.where->column >= 1, "a finding has a line but no column");
  }
  if (document != nullptr) check_places(document->root(), static_cast<uint32_t>(document->text().size()), 0);
}

void compare_readers(const std::string& text) {
  diag::Diagnostics out;
  const yaml::Document document("x.yaml", text);
  const auto readable = yaml::prescan(document, out);
  if (!readable) return;
  const auto plain = yaml::read_plain(*readable, {});
  if (!plain) return;
  diag::Diagnostics reported;
  const auto full = yaml::read_with_library(document, *readable, {}, reported);
  fuzz::require(full.has_value() && reported.empty(), "only the plain reader accepts the text");
  const std::string difference = test::first_difference(*plain, *full);
  fuzz::require(difference.empty(), "the readers differ at " + difference);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  compare_readers(text);
  diag::Diagnostics out;
  check_document(yaml::parse("x.yaml", text, out), out);
  diag::Diagnostics json;
  check_document(yaml::parse_json("x.yaml", text, json), json);
  return 0;
}
