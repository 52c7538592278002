#include "orchestrator/changelog/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/changelog/layout.h"
#include "orchestrator/diag/rules/changelog.h"

namespace sweep::changelog {

namespace {

namespace rule = diag::rule;
using schema::ChangelogEntry;

constexpr size_t kMostKeysNamed = 3;

const ChangelogEntry& of_base(const Comparison& c, const Change& change) {
  return c.base.entries[*change.base];
}
const ChangelogEntry& of_head(const Comparison& c, const Change& change) {
  return c.head.entries[*change.head];
}
diag::SourceSpan place(const ChangelogEntry& entry) {
  return entry.document->span(entry.where);
}

std::string path_of(size_t index) {
  return fmt::format("[{}]", index);
}

diag::SourceSpan place_of_gap(const Comparison& c, const Change& gap) {
  if (gap.place < c.head.entries.size()) return place(c.head.entries[gap.place]);
  const auto end = static_cast<uint32_t>(c.head.document->text().size());
  return c.head.document->span({end, end});
}

void report_deleted(const Comparison& c, const Change& change, diag::Diagnostics& out) {
  const ChangelogEntry& entry = of_base(c, change);
  diag::Diagnostic d = diag::make_at(rule::changelog_entry_deleted, place_of_gap(c, change),
                                     name_of(entry, *change.base) + " was deleted",
                                     "history may only grow: put the entry back where it stood");
  d.path = path_of(*change.base);
  d.notes.push_back({"the base has it here", place(entry)});
  out.add(std::move(d));
}

void report_in_head(const Comparison& c, const Change& change, diag::RuleId rule, std::string what, std::string help,
                    diag::Diagnostics& out) {
  const ChangelogEntry& entry = of_head(c, change);
  diag::Diagnostic d = diag::make_at(
      rule, place(entry),
      fmt::format("{} {}",
                  change.base ? name_of(of_base(c, change), *change.base) : "new " + name_of(entry, *change.head),
                  what),
      std::move(help));
  d.path = path_of(*change.head);
  if (change.base) d.notes.push_back({"the base has it here", place(of_base(c, change))});
  out.add(std::move(d));
}

// Entries that are gone, other, elsewhere or between old ones; false if there is none.
bool report_structure(const Comparison& c, diag::Diagnostics& out) {
  bool any = false;
  for (const Change& change : c.changes) {
    switch (change.kind) {
      case ChangeKind::kDeleted:
        report_deleted(c, change, out);
        break;
      case ChangeKind::kChanged:
        report_in_head(c, change, rule::changelog_entry_changed, "was changed",
                       "restore it, and describe what changed since in a new entry at the end", out);
        break;
      case ChangeKind::kMoved:
        report_in_head(c, change, rule::changelog_entry_moved, "was moved",
                       "history keeps its order: put it back where it stood", out);
        break;
      case ChangeKind::kInserted:
        report_in_head(c, change, rule::changelog_entry_inserted, "stands before entries of the base",
                       "move it to the end of the file", out);
        break;
      case ChangeKind::kAdded:
      case ChangeKind::kCorrected:
        continue;
    }
    any = true;
  }
  return any;
}

class LinkRules {
 public:
  LinkRules(const Policy& policy, RepositoryAddress repository, diag::Diagnostics& out)
      : policy_(policy), repository_(std::move(repository)), out_(out) {}

  // A new entry, which may still wait for its number on a pull request.
  void check_new(const ChangelogEntry& entry, size_t index) {
    path_ = path_of(index) + ".pr-link";
    const std::optional<Link> link = well_formed(entry);
    if (!link) return;
    if (link->is_placeholder()) {
      report_placeholder(entry);
    } else if (policy_.pull_request && *policy_.pull_request != link->number) {
      report(entry, rule::changelog_link_number,
             *policy_.pull_request == schema::kPlaceholderLink
                 ? fmt::format("pr-link names pull request {}, but this one has no number yet", link->number)
                 : fmt::format("pr-link names pull request {}, but this is {}", link->number, *policy_.pull_request),
             fmt::format("write {}", expected(*policy_.pull_request)));
    }
  }

  // The new link of an old entry, which belongs to whatever pull request made it.
  void check_corrected(const ChangelogEntry& entry, size_t index) {
    path_ = path_of(index) + ".pr-link";
    const std::optional<Link> link = well_formed(entry);
    if (link && link->is_placeholder())
      report(entry, rule::changelog_link_placeholder, "a correction must end in a link, not in a placeholder",
             fmt::format("write {}", expected("NUMBER")));
  }

 private:
  std::string expected(std::string_view number) const {
    if (repository_.empty()) return link_to("https://github.com/OWNER/NAME", number);
    return link_to(repository_, number);
  }

  std::optional<Link> well_formed(const ChangelogEntry& entry) {
    if (!entry.pr_link) return std::nullopt;  // missing or no text: reported with its field
    std::optional<Link> link = parse_link(*entry.pr_link);
    if (!link) {
      report(entry, rule::changelog_link_form, fmt::format("\"{}\" is no link of a pull request", *entry.pr_link),
             fmt::format("write {}", expected(policy_.pull_request.value_or("NUMBER"))));
      return std::nullopt;
    }
    if (link->repository.empty()) return link;
    if (repository_.empty()) repository_ = link->repository;
    if (link->repository == repository_) return link;
    report(entry, rule::changelog_link_repository,
           fmt::format("pr-link names the repository {}, expected {}", link->repository, repository_),
           "name the repository with `--repository OWNER/NAME` if the expected one is wrong");
    return std::nullopt;
  }

  void report_placeholder(const ChangelogEntry& entry) {
    const bool main = !policy_.pull_request;
    if (policy_.pull_request == schema::kPlaceholderLink) return;
    diag::Diagnostic d = diag::make_at(
        rule::changelog_link_placeholder, entry.document->span(entry.pr_link.where),
        main ? "pr-link is still a placeholder, which the main branch does not take" : "pr-link is still a placeholder",
        main ? fmt::format("write {}; on a pull request, say so with `--pr N` (`--pr XXX` before it has a number)",
                           expected("NUMBER"))
             : fmt::format("`sweepctl changelog canonicalize --pr {}` writes the link", *policy_.pull_request));
    if (!main) d.severity = diag::Severity::kWarning;
    d.path = path_;
    out_.add(std::move(d));
  }

  void report(const ChangelogEntry& entry, diag::RuleId rule, std::string message, std::string help) {
    diag::Diagnostic d =
        diag::make_at(rule, entry.document->span(entry.pr_link.where), std::move(message), std::move(help));
    d.path = path_;
    out_.add(std::move(d));
  }

  const Policy& policy_;
  RepositoryAddress repository_;
  diag::Diagnostics& out_;
  std::string path_;  // of the link being judged
};

void check_history(const Comparison& c, diag::Diagnostics& out) {
  const auto corrected = c.entries(ChangeKind::kCorrected);
  const auto added = c.entries(ChangeKind::kAdded);
  if (!corrected.empty() && !added.empty()) {
    diag::Diagnostic d = diag::make_at(
        rule::changelog_mixed_correction, corrected.front()->document->span(corrected.front()->pr_link.where),
        fmt::format("{} corrected and {} added in one change",
                    corrected.size() == 1 ? "the link of an old entry was"
                                          : fmt::format("links of {} old entries were", corrected.size()),
                    added.size() == 1 ? "an entry" : fmt::format("{} entries", added.size())),
        "make it two changes");
    d.notes.push_back({"added here", place(*added.front())});
    out.add(std::move(d));
    return;
  }
  if (!corrected.empty()) {
    check_corrections(c, out);
    return;
  }
  const yaml::Document* base = c.base.document.get();
  const bool intact = base == nullptr || check_prefix(*base, *c.head.document, out);
  if (!intact) return;
  if (!added.empty())
    check_additions(base, c.head, c.base.entries.size(), out);
  else if (base != nullptr && base->text().size() != c.head.document->text().size())
    out.add(diag::make_at(rule::changelog_history_changed,
                          c.head.document->span({static_cast<uint32_t>(base->text().size()),
                                                 static_cast<uint32_t>(base->text().size() + 1)}),
                          "something other than a new entry was added behind the history",
                          "take it away, or make it part of a new entry"));
}

}  // namespace

std::string name_of(const ChangelogEntry& entry, size_t index) {
  std::string keys;
  for (size_t i = 0; i < std::min(entry.config_keys.size(), kMostKeysNamed); ++i)
    keys += fmt::format("{}{}", i == 0 ? "" : ", ", entry.config_keys[i].value);
  if (entry.config_keys.size() > kMostKeysNamed)
    keys += fmt::format(" and {} more", entry.config_keys.size() - kMostKeysNamed);
  return fmt::format("entry {} ({}: {})", index + 1, entry.pr_link ? *entry.pr_link : "no pr-link", keys);
}

std::vector<const ChangelogEntry*> Comparison::entries(ChangeKind kind) const {
  std::vector<const ChangelogEntry*> result;
  for (const Change& change : changes)
    if (change.kind == kind) result.push_back(change.head ? &head.entries[*change.head] : &base.entries[*change.base]);
  return result;
}

Comparison compare(const std::optional<Revision>& base, const Revision& head, const Policy& policy,
                   diag::Diagnostics& out) {
  Comparison c;
  diag::Diagnostics found;
  diag::Diagnostics found_in_base;
  c.head = schema::read_changelog(head.name, head.text, found);
  if (base) c.base = schema::read_changelog(base->name, base->text, found_in_base);
  // What is wrong with a history that is intact was already said about the head, whose lines it also names.
  const bool intact = base && base->text.ends_with('\n') && head.text.starts_with(base->text);
  if (!intact || found.error_count() < found_in_base.error_count()) found.add_all(found_in_base);

  c.repository = policy.repository.empty() ? repository_of(c.base.entries) : policy.repository;
  const bool base_is_list = !base || c.base.is_list();
  if (c.head.is_list() && base_is_list) {
    if (base) {
      c.changes = align(c.base, c.head);
    } else {
      for (size_t i = 0; i < c.head.entries.size(); ++i) c.changes.push_back({ChangeKind::kAdded, std::nullopt, i, i});
    }
    if (!report_structure(c, found)) check_history(c, found);
    LinkRules links(policy, c.repository, found);
    for (const Change& change : c.changes) {
      if (change.kind == ChangeKind::kAdded || change.kind == ChangeKind::kInserted)
        links.check_new(of_head(c, change), *change.head);
      if (change.kind == ChangeKind::kCorrected) links.check_corrected(of_head(c, change), *change.head);
    }
  } else if (base && !intact) {
    // No entries to compare; the bytes still say whether history is whole.
    const yaml::Document base_text(base->name, base->text);
    const yaml::Document head_text(head.name, head.text);
    check_prefix(base_text, head_text, found);
  }
  c.accepted = !found.has_errors();
  out.add_all(found);
  return c;
}

}  // namespace sweep::changelog
