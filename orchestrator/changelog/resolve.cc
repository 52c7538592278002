#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "orchestrator/changelog/append.h"
#include "orchestrator/diag/rules/changelog.h"

namespace sweep::changelog {

namespace {

namespace rule = diag::rule;

void replace(std::string& text, yaml::Range where, std::string_view with) {
  text.replace(where.begin, where.end - where.begin, with);
}

yaml::Range line_around(std::string_view text, yaml::Range where) {
  const size_t begin = where.begin == 0 ? 0 : text.rfind('\n', where.begin - 1) + 1;
  const size_t end = std::min(text.find('\n', where.end), text.size());
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

std::string_view part(std::string_view text, yaml::Range where) {
  return text.substr(where.begin, where.end - where.begin);
}

// The lines of an entry without the empty ones that separate it from the next.
std::string lines_of(const schema::ChangelogFile& file, size_t index) {
  const uint32_t begin = file.line_start(index);
  std::string_view lines = part(file.document->text(), {begin, file.line_start(index + 1)});
  while (lines.ends_with("\n\n")) lines.remove_suffix(1);
  return std::string(lines);
}

bool only_adds_or_corrects(const Comparison& comparison) {
  return comparison.head.valid &&
         std::all_of(comparison.changes.begin(), comparison.changes.end(), [](const Change& change) {
           return change.kind == ChangeKind::kAdded || change.kind == ChangeKind::kCorrected;
         });
}

void refuse(const Revision& side, const diag::Diagnostics& why, diag::Diagnostics& out) {
  out.add_all(why);
  out.add(diag::make_at(rule::changelog_no_conflict, {side.name},
                        "this side of the conflict changed history, so that nobody can say what was meant",
                        "restore the history on that side, then merge again"));
}

}  // namespace

std::optional<Canonical> canonicalize(const std::optional<Revision>& base, const Revision& head, const Policy& policy,
                                      diag::Diagnostics& out) {
  diag::Diagnostics found;
  const Comparison before = compare(base, head, policy, found);
  if (!before.accepted) {
    out.add_all(found);
    return std::nullopt;
  }
  Canonical result{head.text, 0};
  const std::string link = link_to(before.repository, *policy.pull_request);
  auto added = before.entries(ChangeKind::kAdded);
  std::reverse(added.begin(), added.end());  // from the end, so that offsets stay right
  for (const schema::ChangelogEntry* entry : added) {
    const std::optional<Link> old = parse_link(*entry->pr_link);
    if (!old || !old->is_placeholder()) continue;
    replace(result.text, entry->pr_link.where, link);
    ++result.rewritten;
  }
  if (!compare(base, {head.name, result.text}, policy, out).accepted) return std::nullopt;
  return result;
}

std::optional<Resolution> resolve_conflict(const Conflict& conflict, const Policy& policy, diag::Diagnostics& out) {
  diag::Diagnostics about_main;
  diag::Diagnostics about_branch;
  const Comparison main = compare(conflict.base, conflict.main, {.repository = policy.repository}, about_main);
  const Comparison branch = compare(conflict.base, conflict.branch, policy, about_branch);
  if (!only_adds_or_corrects(main)) {
    refuse(conflict.main, about_main, out);
    return std::nullopt;
  }
  if (!only_adds_or_corrects(branch)) {
    refuse(conflict.branch, about_branch, out);
    return std::nullopt;
  }
  Resolution result{.text = conflict.main.text};
  std::vector<const Change*> corrections;
  for (const Change& change : branch.changes)
    if (change.kind == ChangeKind::kCorrected) corrections.push_back(&change);
  std::reverse(corrections.begin(), corrections.end());
  for (const Change* change : corrections) {
    const schema::Text& now = main.head.entries[*change->base].pr_link;
    if (now.value != branch.base.entries[*change->base].pr_link.value) continue;  // main corrected it as well
    const std::string& theirs = branch.head.document->text();
    const yaml::Range line = line_around(theirs, branch.head.entries[*change->head].pr_link.where);
    replace(result.text, line_around(conflict.main.text, now.where), part(theirs, line));
    ++result.corrected;
  }
  std::set<std::string> known;
  for (const yaml::Node& item : main.head.document->root().items) known.insert(content_of(item));
  for (const Change& change : branch.changes) {
    if (change.kind != ChangeKind::kAdded) continue;
    if (known.contains(content_of(branch.head.document->root().items[*change.head]))) {
      ++result.dropped;
      continue;
    }
    result.text = appended(result.text, lines_of(branch.head, *change.head));
    ++result.appended;
  }
  if (!compare(conflict.main, {conflict.branch.name, result.text}, policy, out).accepted) return std::nullopt;
  return result;
}

}  // namespace sweep::changelog
