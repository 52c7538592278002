#include "orchestrator/weights/verify_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/host/host.h"

namespace sweep::weights {

namespace {

// Kinds of files that engines pick up by themselves.
constexpr auto kLoadedSuffixes = std::to_array<std::string_view>(
    {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".json", ".py", ".model", ".txt", ".jinja", ".tiktoken"});

bool is_loaded_by_engines(std::string_view path) {
  return std::any_of(kLoadedSuffixes.begin(), kLoadedSuffixes.end(),
                     [&](std::string_view suffix) { return path.ends_with(suffix); });
}

void take_content(const HashOutcome& outcome, FileReport& file) {
  file.size = outcome.size;
  file.sha256 = outcome.sha256;
  if (!outcome.git_blob.empty()) file.git_blob = outcome.git_blob;
  file.proof = outcome.from_known ? Proof::kCached : Proof::kHashed;
  file.stamp = outcome.stamp;
}

class Judge {
 public:
  Judge(const Hashed& hashed, Report& report)
      : pin_(hashed.pin), staging_(hashed.staging), outcomes_(hashed.outcomes), report_(report) {
    for (size_t i = 0; i < staging_.files.size(); ++i) staged_by_path_.emplace(staging_.files[i].path, i);
    for (const PinnedFile& file : pin_.files) pinned_paths_.insert(file.path);
  }

  void pinned();
  void extra();

 private:
  void judge(const PinnedFile& pinned, const StagedFile& staged, const HashOutcome& outcome);
  FileStatus judge_content(const PinnedFile& pinned, const HashOutcome& outcome);
  void add(diag::RuleId rule, const std::string& path, std::string message, std::string help = {}) {
    add_error(report_, diag::make(rule, std::move(message), std::move(help)), path);
  }

  const Pin& pin_;
  const Staging& staging_;
  std::span<const HashOutcome> outcomes_;
  Report& report_;
  std::unordered_map<std::string_view, size_t> staged_by_path_;
  std::unordered_set<std::string_view> pinned_paths_;
};

void Judge::pinned() {
  size_t not_done = 0;
  for (const PinnedFile& pinned : pin_.files) {
    const auto found = staged_by_path_.find(pinned.path);
    if (found == staged_by_path_.end()) {
      FileReport file{.path = pinned.path, .size = {}, .sha256 = {}, .status = FileStatus::kMissing};
      note_expected(file, pinned);
      report_.files.push_back(std::move(file));
      add(diag::rule::weights_missing_file, pinned.path, fmt::format("\"{}\" is pinned and not there", pinned.path),
          fmt::format("fetch it again into {}", staging_.root.string()));
      continue;
    }
    const HashOutcome& outcome = outcomes_[found->second];
    if (outcome.state == HashState::kNotDone) ++not_done;
    judge(pinned, staging_.files[found->second], outcome);
  }
  if (not_done != 0)
    add(diag::rule::weights_not_checked, "",
        fmt::format("interrupted: the content of {} of {} pinned files was not checked", not_done, pin_.files.size()));
}

FileStatus Judge::judge_content(const PinnedFile& pinned, const HashOutcome& outcome) {
  if (!pinned.sha256 && !pinned.git_blob) {
    add(diag::rule::weights_pin_incomplete, pinned.path,
        fmt::format("the pin has neither SHA-256 nor git blob id of \"{}\" (found {})", pinned.path, outcome.sha256),
        "make the pin again with `sweepctl weights pin`");
    return FileStatus::kNotPinned;
  }
  FileStatus status = FileStatus::kOk;
  const auto compare = [&](std::string_view kind, const std::optional<std::string>& expected,
                           const std::string& found) {
    if (!expected || *expected == found) return;
    status = FileStatus::kHashMismatch;
    add(diag::rule::weights_hash_mismatch, pinned.path,
        fmt::format("\"{}\" has {} {}, expected {}", pinned.path, kind, found, *expected),
        "delete the file and fetch it again");
  };
  compare("SHA-256", pinned.sha256, outcome.sha256);
  compare("git blob id", pinned.git_blob, outcome.git_blob);
  return status;
}

void Judge::judge(const PinnedFile& pinned, const StagedFile& staged, const HashOutcome& outcome) {
  FileReport file{.path = pinned.path, .size = staged.size, .sha256 = {}, .status = FileStatus::kNotChecked};
  switch (outcome.state) {
    case HashState::kNotDone:
      break;
    case HashState::kUnreadable:
      file.status = FileStatus::kUnreadable;
      add(diag::rule::weights_unreadable, pinned.path, fmt::format("\"{}\": {}", pinned.path, outcome.reason));
      break;
    case HashState::kChanged:
      file.status = FileStatus::kChanged;
      add(diag::rule::weights_changed, pinned.path, fmt::format("\"{}\": {}", pinned.path, outcome.reason),
          "verify again once nothing writes to the folder any more");
      break;
    case HashState::kDone:
      take_content(outcome, file);
      file.status = judge_content(pinned, outcome);
      break;
  }
  if (pinned.size && *pinned.size != *file.size) {
    if (outcome.state == HashState::kDone) file.status = FileStatus::kSizeMismatch;
    add(diag::rule::weights_size_mismatch, pinned.path,
        fmt::format("\"{}\" has {} bytes, expected {}", pinned.path, *file.size, *pinned.size),
        "delete the file and fetch it again");
  }
  if (outcome.state == HashState::kDone) note_expected(file, pinned);
  report_.files.push_back(std::move(file));
}

void Judge::extra() {
  for (size_t i = 0; i < staging_.files.size(); ++i) {
    const StagedFile& staged = staging_.files[i];
    if (pinned_paths_.contains(staged.path)) continue;
    FileReport file{.path = staged.path, .size = staged.size, .sha256 = {}, .status = FileStatus::kExtra};
    if (outcomes_[i].state == HashState::kDone) take_content(outcomes_[i], file);
    report_.files.push_back(std::move(file));
    diag::Diagnostic finding =
        diag::make(diag::rule::weights_extra_file, fmt::format("\"{}\" is not in the pin", staged.path),
                   "remove it, or pin the folder as it is");
    finding.path = staged.path;
    if (!is_loaded_by_engines(staged.path)) finding.severity = diag::Severity::kWarning;
    report_.findings.add(std::move(finding));
  }
}

}  // namespace

void judge_files(const Hashed& hashed, Report& report) {
  report.host = host::hostname();
  report.layout = layout_name(hashed.staging.layout);
  report.pin_sha256 = pin_digest(hashed.pin);
  Judge judge(hashed, report);
  judge.pinned();
  judge.extra();
}

void add_error(Report& report, diag::Diagnostic diagnostic, const std::string& path) {
  diagnostic.severity = diag::Severity::kError;
  diagnostic.path = path;
  report.findings.add(std::move(diagnostic));
}

}  // namespace sweep::weights
