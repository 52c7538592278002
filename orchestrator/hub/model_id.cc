#include "orchestrator/hub/model_id.h"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/hex.h"
#include "orchestrator/diag/rules/hub.h"
#include "orchestrator/diag/terminal_text.h"

namespace sweep::hub {

namespace {

constexpr size_t kCommitDigits = 40;
constexpr size_t kLongestPart = 96;
constexpr size_t kLongestRevision = 255;
constexpr size_t kShortestHash = 4;  // git's core.abbrev allows no shorter one

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

// Why `part` is no part of a name; empty if it is one.
std::string problem_of(std::string_view part) {
  if (part.empty()) return "has an empty part";
  if (part.size() > kLongestPart) return fmt::format("has a part of more than {} characters", kLongestPart);
  const auto odd = std::find_if_not(part.begin(), part.end(), is_name_character);
  if (odd != part.end()) return fmt::format("holds a character other than letters, digits, \"-\", \"_\" and \".\"");
  if (part.front() == '-' || part.front() == '.' || part.back() == '-' || part.back() == '.')
    return fmt::format("has a part that begins or ends with \"{}\"",
                       part.front() == '-' || part.front() == '.' ? part.front() : part.back());
  for (const std::string_view pair : {"--", ".."})
    if (part.find(pair) != std::string_view::npos) return fmt::format("holds \"{}\"", pair);
  if (part.ends_with(".git")) return "ends in \".git\"";
  return {};
}

}  // namespace

ModelRevision split_model_revision(std::string_view text) {
  const size_t at = text.find('@');
  if (at == std::string_view::npos) return {.model = std::string(text), .revision = {}};
  return {.model = std::string(text.substr(0, at)), .revision = std::string(text.substr(at + 1))};
}

diag::Result<diag::Done> check_model(std::string_view model) {
  const size_t slash = model.find('/');
  std::string problem;
  if (slash == std::string_view::npos)
    problem = model.empty() ? "is empty" : "has no \"/\"";
  else if (model.find('/', slash + 1) != std::string_view::npos)
    problem = "has more than one \"/\"";
  else if ((problem = problem_of(model.substr(0, slash))).empty())
    problem = problem_of(model.substr(slash + 1));
  if (problem.empty()) return diag::Done{};
  return diag::fail(diag::rule::hub_bad_model,
                    fmt::format("the model's name \"{}\" {}", diag::printable(model.substr(0, 200)), problem),
                    "names are ORG/NAME, like deepseek-ai/DeepSeek-V4.1-Flash");
}

bool is_commit(std::string_view revision) {
  return base::is_lower_hex(revision, kCommitDigits);
}

diag::Result<diag::Done> check_commit(const ModelRevision& wanted) {
  const std::string& revision = wanted.revision;
  if (is_commit(revision)) return diag::Done{};
  const std::string model = diag::printable(wanted.model);
  if (revision.empty())
    return diag::fail(diag::rule::hub_not_a_commit, fmt::format("no revision of \"{}\" is named", model),
                      fmt::format("write {}@COMMIT with 40 hex digits; `{}@main --resolve` asks the hub which commit "
                                  "the branch is now",
                                  model, model));
  std::string lower = revision;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'F' ? c + 32 : c; });
  if (is_commit(lower))
    return diag::fail(diag::rule::hub_not_a_commit, fmt::format("the commit \"{}\" has upper-case digits", revision),
                      fmt::format("write {}@{}", model, lower));
  const bool short_hash =
      revision.size() >= kShortestHash && revision.size() < kCommitDigits && base::is_lower_hex(revision);
  return diag::fail(
      diag::rule::hub_not_a_commit,
      short_hash ? fmt::format("\"{}\" has {} of the {} digits of a commit", revision, revision.size(), kCommitDigits)
                 : fmt::format("\"{}\" is no commit of {} hex digits; a branch or tag can move",
                               diag::printable(revision), kCommitDigits),
      short_hash ? "copy the whole commit from the hub's page of the repository's history"
                 : "with --resolve, the hub is asked which commit it is now");
}

diag::Result<diag::Done> check_resolvable(const ModelRevision& wanted) {
  const std::string& revision = wanted.revision;
  if (revision.empty()) return check_commit(wanted);
  const bool control = std::any_of(revision.begin(), revision.end(),
                                   [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; });
  // "." and ".." would be taken out of the path of the URL.
  if (!control && revision.size() <= kLongestRevision && revision != "." && revision != "..") return diag::Done{};
  return diag::fail(diag::rule::hub_not_a_commit,
                    fmt::format("\"{}\" cannot be the name of a branch or tag",
                                diag::printable(std::string_view(revision).substr(0, kLongestRevision))));
}

}  // namespace sweep::hub
