// Files of every kind through all checks: no crash, every finding has a rule, a place and words.
#include <cstdint>
#include <string>

#include "orchestrator/schema/checkout.h"
#include "tests/fuzz/require.h"

// The first byte chooses the kind of the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sweep;
  if (size == 0) return 0;
  const auto kind = static_cast<schema::FileKind>(data[0] % schema::ChoiceNames<schema::FileKind>::kNames.size());
  const bool json = kind == schema::FileKind::kPin || kind == schema::FileKind::kResult;
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const schema::Checkout checkout = schema::load_texts(
      {.targets = {{.name = "x", .path = json ? "x.json" : "x.yaml", .text = std::move(text), .kind = kind}}});
  for (const diag::Diagnostic& d : checkout.diagnostics.items())
    fuzz::require(!d.message.empty() && d.where && d.where->file == "x", "a finding lacks words or a place");
  return 0;
}
