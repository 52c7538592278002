#include "orchestrator/changelog/history.h"

#include <fmt/format.h>

#include <cerrno>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/changelog.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::changelog {

namespace {

namespace rule = diag::rule;
using OptionalRevision = std::optional<Revision>;

diag::Result<OptionalRevision> revision_at(const git::Repository& repository, const git::Commit& commit,
                                           const std::string& file, std::string name) {
  auto text = repository.read(commit, file);
  if (!text) return diag::fail(std::move(text).error());
  if (!*text) return OptionalRevision();
  return OptionalRevision(Revision{std::move(name), std::move(**text)});
}

diag::Result<OptionalRevision> revision_on_disk(const git::Repository& repository, const std::string& file) {
  auto text = base::read_file(repository.root() / file, yaml::Limits().bytes);
  if (text) return OptionalRevision(Revision{file, *std::move(text)});
  if (text.error().error_number == ENOENT || text.error().error_number == ENOTDIR) return OptionalRevision();
  const bool large = text.error().error_number == EFBIG;
  return diag::fail(diag::make_at(
      large ? rule::file_too_large : rule::file_unreadable, {file},
      large ? fmt::format("the file is larger than {} bytes", yaml::Limits().bytes) : text.error().text()));
}

}  // namespace

diag::Result<History> read_history(const git::Repository& repository, const HistoryQuestion& question) {
  auto tip = repository.resolve(question.base);
  if (!tip) return diag::fail(std::move(tip).error());
  auto head = repository.resolve(question.head.value_or("HEAD"));
  if (!head) return diag::fail(std::move(head).error());
  auto from = question.tip ? tip : repository.merge_base(*tip, *head);
  if (!from) return diag::fail(std::move(from).error());

  auto at_tip = revision_at(repository, *tip, question.file, fmt::format("{}:{}", question.base, question.file));
  if (!at_tip) return diag::fail(std::move(at_tip).error());
  auto head_text = question.head ? revision_at(repository, *head, question.file, question.file)
                                 : revision_on_disk(repository, question.file);
  if (!head_text) return diag::fail(std::move(head_text).error());
  // A base that was merged into the working tree, but not committed yet, is not behind the merge base.
  const bool has_tip = *at_tip && *head_text && (*head_text)->text.starts_with((*at_tip)->text);
  if (has_tip) from = tip;
  auto at_from = *from == *tip ? at_tip
                               : revision_at(repository, *from, question.file,
                                             fmt::format("{}:{}", from->short_id(), question.file));
  if (!at_from) return diag::fail(std::move(at_from).error());
  return History{.tip = *tip,
                 .from = *from,
                 .to = question.head ? std::optional(*head) : std::nullopt,
                 .base = *std::move(at_from),
                 .head = *std::move(head_text),
                 .base_at_tip = *std::move(at_tip)};
}

size_t check_behind(const History& history, const HistoryQuestion& question, diag::Diagnostics& out) {
  if (!history.base_at_tip || history.from == history.tip) return 0;
  if (history.base && history.base->text == history.base_at_tip->text) return 0;
  diag::Diagnostics ignored;
  const schema::ChangelogFile newer =
      schema::read_changelog(history.base_at_tip->name, history.base_at_tip->text, ignored);
  const size_t known =
      history.base ? schema::read_changelog(history.base->name, history.base->text, ignored).entries.size() : 0;
  if (newer.entries.size() <= known) return 0;
  const size_t missing = newer.entries.size() - known;
  out.add(diag::make_at(
      rule::changelog_behind, {question.file},
      fmt::format("this branch is behind {}: {} newer {} missing, the last is {}", question.base, missing,
                  missing == 1 ? "entry is" : "entries are", name_of(newer.entries.back(), newer.entries.size() - 1)),
      "its own entries are compared with the merge base; merge the base, then `sweepctl changelog resolve-conflict`"));
  return missing;
}

}  // namespace sweep::changelog
