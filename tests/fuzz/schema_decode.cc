// Files of every kind, decoded and checked: no crash, every finding has a rule, a place and words.
#include <cstdint>
#include <string>

#include "orchestrator/schema/kinds.h"
#include "orchestrator/schema/rules.h"
#include "orchestrator/yaml/parse.h"
#include "tests/fuzz/require.h"

namespace {

using namespace sweep;
using schema::FileKind;

schema::Checkout decode(const schema::DocumentPtr& document, FileKind kind, diag::Diagnostics& out) {
  schema::Checkout checkout;
  switch (kind) {
    case FileKind::kMatrix:
      checkout.entries = schema::decode_matrix(document, out);
      break;
    case FileKind::kRunners:
      checkout.runners = schema::decode_runners(document, out);
      break;
    case FileKind::kRecipe:
      checkout.recipes.push_back(schema::decode_recipe(document, "recipes/x.yaml", out));
      break;
    case FileKind::kAcceptance:
      checkout.curves = schema::decode_acceptance(document, out);
      break;
    case FileKind::kChangelog:
      checkout.changelog = schema::decode_changelog(document, out);
      schema::check_changelog_text(*document, checkout.changelog, out);
      break;
    case FileKind::kPin:
      checkout.pins.push_back(schema::decode_pin(document, "matrix/models/x.json", out));
      break;
    case FileKind::kCluster:
      schema::decode_cluster(document, out);
      break;
  }
  return checkout;
}

void check_rules(const schema::Checkout& checkout, diag::Diagnostics& out) {
  schema::check_duplicate_entries(checkout, out);
  for (const schema::MatrixEntry& entry : checkout.entries) {
    schema::check_entry(entry, out);
    schema::check_policy(entry, out);
    schema::check_bindings(entry, checkout, out);
    schema::check_capabilities(entry, checkout, out);
    schema::check_acceptance_control(entry, checkout, out);
  }
  for (const schema::RecipeFile& recipe : checkout.recipes) {
    schema::check_capabilities(recipe, out);
    schema::check_acceptance_control(recipe, out);
  }
  schema::check_images(checkout, out);
  schema::check_changelog_keys(checkout, out);
}

}  // namespace

// The first byte chooses the kind.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto kind = static_cast<FileKind>(data[0] % schema::ChoiceNames<FileKind>::kNames.size());
  diag::Diagnostics out;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto document = kind == FileKind::kPin ? yaml::parse_json("x", text, out) : yaml::parse("x", text, out);
  if (document == nullptr) return 0;
  check_rules(decode(document, kind, out), out);
  out.normalise();
  for (const diag::Diagnostic& d : out.items())
    fuzz::require(!d.message.empty() && d.where && d.where->file == "x", "a finding lacks words or a place");
  return 0;
}
