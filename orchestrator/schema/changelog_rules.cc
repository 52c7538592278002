// Rules over one changelog file. What may change between two revisions is judged elsewhere.
#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/changelog.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kPlaceholder = "XXX";
constexpr std::string_view kFirstLine = "- config-keys:";

bool is_new(const ChangelogEntry& entry) {
  return entry.pr_link && (*entry.pr_link == kPlaceholder || entry.pr_link->ends_with("/" + std::string(kPlaceholder)));
}

size_t entry_lines(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kFirstLine)) ++count;
    at = text.find('\n', at);
    if (at == std::string_view::npos) break;
    ++at;
  }
  return count;
}

void report_merged_keys(const yaml::Document& document, const yaml::Node& node, diag::Diagnostics& out) {
  for (const yaml::Entry& entry : node.entries)
    if (entry.merged)
      out.add(diag::make_at(rule::changelog_layout, document.span(node.where),
                            fmt::format("field \"{}\" comes from a merge key", entry.key),
                            "write the fields of a changelog entry out"));
}

}  // namespace

bool key_matches(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

void check_changelog_text(const yaml::Document& document, const std::vector<ChangelogEntry>& entries,
                          diag::Diagnostics& out) {
  const std::string& text = document.text();
  const auto end = static_cast<uint32_t>(text.size());
  if (!text.ends_with('\n'))
    out.add(diag::make_at(rule::changelog_layout, document.span({end, end}), "the file does not end with a newline",
                          "the next entry would be appended to the last line"));
  for (const yaml::Node& item : document.root().items) report_merged_keys(document, item, out);
  for (const ChangelogEntry& entry : entries) {
    // The mapping's mark is its first key; the line must be exactly "- config-keys:".
    const uint32_t line_start =
        entry.where.begin == 0 ? 0 : static_cast<uint32_t>(text.rfind('\n', entry.where.begin - 1) + 1);
    if (!std::string_view(text).substr(line_start).starts_with(kFirstLine))
      out.add(diag::make_at(rule::changelog_layout, document.span(entry.where),
                            fmt::format("a changelog entry must begin with the line \"{}\"", kFirstLine),
                            "put config-keys first, unquoted, with the dash in the first column"));
    const bool evaluates = entry.evals_only.value || entry.all_evals.value || entry.eval_min_prefill_ep.present;
    if (entry.append_only.value && evaluates)
      out.add(diag::make_at(rule::changelog_append_only_evals, document.span(entry.append_only.where),
                            "\"append-only\" excludes evals-only, all-evals and eval-min-prefill-ep",
                            "append-only adds points and never evaluations"));
  }
  if (const size_t lines = entry_lines(text); lines != entries.size())
    out.add(diag::make_at(
        rule::changelog_layout, {document.name()},
        fmt::format("{} lines begin with \"{}\", but the file has {} entries", lines, kFirstLine, entries.size()),
        "each entry begins with that line in the first column"));
}

void check_changelog_keys(const Checkout& checkout, diag::Diagnostics& out) {
  if (checkout.entries.empty()) return;
  std::vector<std::string_view> names;
  for (const MatrixEntry& entry : checkout.entries) names.push_back(entry.key);
  for (const ChangelogEntry& entry : checkout.changelog) {
    for (const Text& key : entry.config_keys) {
      if (!key) continue;
      if (std::any_of(names.begin(), names.end(), [&](std::string_view name) { return key_matches(*key, name); }))
        continue;
      const auto nearest = base::nearest(*key, names);
      diag::Diagnostic d = diag::make_at(rule::changelog_key_matches_nothing, entry.document->span(key.where),
                                         fmt::format("config key \"{}\" matches no matrix entry", *key),
                                         nearest ? fmt::format("did you mean \"{}\"?", *nearest)
                                                 : "keys are names of matrix entries; \"*\" matches anything");
      // History names entries that have been removed since.
      if (!is_new(entry)) d.severity = diag::Severity::kWarning;
      out.add(std::move(d));
    }
  }
}

}  // namespace sweep::schema
