#include "orchestrator/hub/former_pin.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "orchestrator/diag/rules/hub.h"
#include "orchestrator/diag/terminal_text.h"

namespace sweep::hub {

namespace {

class Comparison {
 public:
  explicit Comparison(diag::Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  template <class Value>
  void compare(const std::string& what, const std::optional<Value>& before, const std::optional<Value>& now) {
    if (before && now && *before != *now) report(fmt::format("{} was {}, is {}", what, *before, *now));
  }
  void report(const std::string& difference) {
    diagnostics_.add(diag::make(diag::rule::hub_former_pin,
                                fmt::format("the former pin of the same commit differs: {}", difference),
                                "a commit cannot change: find out which of the two is wrong"));
  }

 private:
  diag::Diagnostics& diagnostics_;
};

}  // namespace

void compare_with_former(const weights::Pin& former, const weights::Pin& pin, diag::Diagnostics& diagnostics) {
  if (former.model != pin.model || former.revision != pin.revision) return;
  Comparison comparison(diagnostics);
  for (const weights::PinnedFile& before : former.files) {
    const auto now =
        std::find_if(pin.files.begin(), pin.files.end(), [&](const auto& f) { return f.path == before.path; });
    const std::string name = fmt::format("\"{}\"", diag::printable(before.path));
    if (now == pin.files.end()) {
      if (former.complete) comparison.report(fmt::format("{} was listed, is not", name));
      continue;
    }
    comparison.compare("the size of " + name, before.size, now->size);
    comparison.compare("the SHA-256 of " + name, before.sha256, now->sha256);
    comparison.compare("the git blob of " + name, before.git_blob, now->git_blob);
  }
  if (!former.index || !pin.index) return;
  const auto totals = [](uint64_t value) { return std::optional<uint64_t>(value); };
  comparison.compare("total_size", totals(former.index->total_size), totals(pin.index->total_size));
  comparison.compare("tensor_count", totals(former.index->tensor_count), totals(pin.index->tensor_count));
}

}  // namespace sweep::hub
