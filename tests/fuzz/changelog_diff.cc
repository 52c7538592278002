// Any two revisions of a changelog: the first bytes say where the base ends and the head begins. Nothing crashes, and
// what is taken keeps every byte of the base, or differs from it in lines of links alone.
#include <cstdint>
#include <string>
#include <string_view>

#include "orchestrator/changelog/compare.h"
#include "tests/fuzz/require.h"

namespace {

using sweep::fuzz::require;

constexpr std::string_view kSeparator = "\n=====\n";

std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

bool only_links_differ(std::string_view base, std::string_view head) {
  while (!base.empty() && !head.empty()) {
    const std::string_view a = next_line(base);
    const std::string_view b = next_line(head);
    if (a != b && !(a.starts_with("  pr-link:") && b.starts_with("  pr-link:"))) return false;
  }
  return base.empty() && head.empty();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  // A separator in the input, else a share of it: both kinds of input can be mutated into each other.
  const size_t found = text.find(kSeparator);
  const size_t split = found == std::string_view::npos ? text.size() * data[0] / 256 : found;
  const size_t skip = found == std::string_view::npos ? 0 : kSeparator.size();
  const std::string base(text.substr(0, found == std::string_view::npos ? split : split + 1));
  std::string head(text.substr(split + skip));
  if ((data[0] & 1) != 0) head = base + head;  // most random pairs differ at once; this half shares its history

  sweep::changelog::Policy policy;
  if ((data[0] & 2) != 0) policy.pull_request = "7";
  if ((data[0] & 4) != 0) policy.repository = "https://github.com/o/n";
  sweep::diag::Diagnostics out;
  const auto result = sweep::changelog::compare(sweep::changelog::Revision{"base", base}, {"head", head}, policy, out);
  require(result.accepted != out.has_errors(), "a verdict without a reason");
  if (result.accepted) {
    require(head.starts_with(base) || only_links_differ(base, head), "a changed history was taken");
    require(result.head.valid, "an invalid head was taken");
    for (const sweep::changelog::Change& change : result.changes)
      require(change.kind == sweep::changelog::ChangeKind::kAdded ||
                  change.kind == sweep::changelog::ChangeKind::kCorrected,
              "an entry of history was touched");
  }
  // A revision against itself changes nothing, whatever it holds.
  sweep::diag::Diagnostics same;
  const auto itself = sweep::changelog::compare(sweep::changelog::Revision{"base", head}, {"head", head}, policy, same);
  require(itself.changes.empty(), "a revision differs from itself");
  return 0;
}
