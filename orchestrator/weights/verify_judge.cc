#include "orchestrator/weights/verify_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/weights/content_kind.h"
#include "orchestrator/weights/safetensors.h"
#include "orchestrator/weights/verify_records.h"

namespace sweep::weights {

namespace {

// Kinds of files that engines pick up by themselves.
constexpr auto kLoadedSuffixes = std::to_array<std::string_view>(
    {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".json", ".py", ".model", ".txt", ".jinja", ".tiktoken"});

constexpr std::string_view kRemoveExtra = "remove it, or pin the folder as it is";

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
  void case_collisions();

 private:
  void judge_missing(const PinnedFile& pinned);
  void judge(const PinnedFile& pinned, const StagedFile& staged, const HashOutcome& outcome);
  FileStatus judge_content(const PinnedFile& pinned, const StagedFile& staged, const HashOutcome& outcome);
  void warn_of_harmless(std::span<const std::string_view> paths);
  bool leads_elsewhere_now(const StagedFile& staged) const;
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
      judge_missing(pinned);
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

void Judge::judge_missing(const PinnedFile& pinned) {
  FileReport file{.path = pinned.path, .size = {}, .sha256 = {}, .status = FileStatus::kMissing};
  note_expected(file, pinned);
  if (is_refused(staging_, pinned.path)) {
    file.status = FileStatus::kUnreadable;
  } else if (staging_.located.found) {
    const std::filesystem::path& root = staging_.located.root;
    std::error_code ignored;
    const bool folder = std::filesystem::is_directory(root / pinned.path, ignored);
    add(diag::rule::weights_missing_file, pinned.path,
        fmt::format("\"{}\" is pinned and {}", pinned.path, folder ? "is a folder" : "not there"),
        fmt::format("fetch it again into {}", root.string()));
  }
  report_.files.push_back(std::move(file));
}

FileStatus Judge::judge_content(const PinnedFile& pinned, const StagedFile& staged, const HashOutcome& outcome) {
  if (!pinned.sha256 && !pinned.git_blob) {
    add(diag::rule::weights_pin_incomplete, pinned.path,
        fmt::format("the pin has neither SHA-256 nor git blob id of \"{}\" (found {})", pinned.path, outcome.sha256),
        "make the pin again with `sweepctl weights pin`");
    return FileStatus::kNotPinned;
  }
  std::vector<std::string> digests;
  const auto compare = [&](std::string_view kind, const std::optional<std::string>& expected,
                           const std::string& found) {
    if (expected && *expected != found) digests.push_back(fmt::format("{} {}, expected {}", kind, found, *expected));
  };
  compare("SHA-256", pinned.sha256, outcome.sha256);
  compare("git blob id", pinned.git_blob, outcome.git_blob);
  const bool other_size = pinned.size && *pinned.size != outcome.size;
  if (!other_size && digests.empty()) return FileStatus::kOk;
  // Another size implies another content: one finding says both.
  if (other_size) digests.insert(digests.begin(), fmt::format("{} bytes, expected {}", outcome.size, *pinned.size));
  add(other_size ? diag::rule::weights_size_mismatch : diag::rule::weights_hash_mismatch, pinned.path,
      fmt::format("\"{}\" has {}", pinned.path, fmt::join(digests, "; ")), "delete the file and fetch it again");
  // Of a shard, the check of its header says what it is.
  if (!pinned.path.ends_with(kShardSuffix))
    if (const auto content = foreign_content(staged.opened, pinned.path))
      add(diag::rule::weights_wrong_content, pinned.path, fmt::format("\"{}\" holds {}", pinned.path, content->what),
          content->help);
  return other_size ? FileStatus::kSizeMismatch : FileStatus::kHashMismatch;
}

bool Judge::leads_elsewhere_now(const StagedFile& staged) const {
  if (!staged.linked) return false;
  std::error_code error;
  const auto target = std::filesystem::canonical(staging_.located.root / staged.path, error);
  return error || target != staged.opened;
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
      if (leads_elsewhere_now(staged)) {
        file.status = FileStatus::kChanged;
        add(diag::rule::weights_changed, pinned.path,
            fmt::format("\"{}\" became a link to another file while it was hashed", pinned.path),
            "verify again once nothing writes to the folder any more");
        break;
      }
      file.status = judge_content(pinned, staged, outcome);
      note_expected(file, pinned);
      break;
  }
  report_.files.push_back(std::move(file));
}

void Judge::extra() {
  std::vector<std::string_view> harmless;
  for (size_t i = 0; i < staging_.files.size(); ++i) {
    const StagedFile& staged = staging_.files[i];
    if (pinned_paths_.contains(staged.path)) continue;
    FileReport file{.path = staged.path, .size = staged.size, .sha256 = {}, .status = FileStatus::kExtra};
    if (outcomes_[i].state == HashState::kDone) take_content(outcomes_[i], file);
    report_.files.push_back(std::move(file));
    if (!is_loaded_by_engines(staged.path))
      harmless.push_back(staged.path);
    else
      add(diag::rule::weights_extra_file, staged.path, fmt::format("\"{}\" is not in the pin", staged.path),
          std::string(kRemoveExtra));
  }
  warn_of_harmless(harmless);
}

// Many files that no engine loads are one warning.
void Judge::warn_of_harmless(std::span<const std::string_view> paths) {
  const auto warn = [&](std::string message) {
    diag::Diagnostic finding =
        diag::make(diag::rule::weights_extra_file, std::move(message), std::string(kRemoveExtra));
    finding.severity = diag::Severity::kWarning;
    if (paths.size() <= kMostNamed) finding.path = paths.front();
    report_.findings.add(std::move(finding));
  };
  if (paths.size() > kMostNamed)
    return warn(fmt::format("{} files that no engine loads are not in the pin: \"{}\" and {} more", paths.size(),
                            fmt::join(paths.first(kMostNamed), "\", \""), paths.size() - kMostNamed));
  for (; !paths.empty(); paths = paths.subspan(1)) warn(fmt::format("\"{}\" is not in the pin", paths.front()));
}

// Names that differ in case only are one file on some file systems, and for some tools.
void Judge::case_collisions() {
  struct Name {
    std::string folded;
    std::string_view path;
    bool pinned = false;
  };
  std::vector<Name> names;
  const auto folded = [](std::string_view path) {
    std::string text(path);
    for (char& c : text)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text;
  };
  for (const PinnedFile& file : pin_.files) names.push_back({folded(file.path), file.path, true});
  for (const StagedFile& file : staging_.files)
    if (!pinned_paths_.contains(file.path)) names.push_back({folded(file.path), file.path, false});
  std::sort(names.begin(), names.end(),
            [](const Name& a, const Name& b) { return std::tie(a.folded, a.path) < std::tie(b.folded, b.path); });
  for (size_t i = 1; i < names.size(); ++i) {
    const Name& a = names[i - 1];
    const Name& b = names[i];
    if (a.folded != b.folded) continue;
    const bool both_pinned = a.pinned && b.pinned;
    diag::Diagnostic finding = diag::make(
        diag::rule::weights_case_collision, fmt::format("\"{}\" and \"{}\" differ in case only", a.path, b.path),
        both_pinned            ? std::string("a copy to a file system that ignores case loses one of them")
        : a.pinned || b.pinned ? fmt::format("the pin has \"{}\": remove the other", a.pinned ? a.path : b.path)
                               : std::string("neither is pinned: remove both"));
    finding.severity = both_pinned ? diag::Severity::kWarning : diag::Severity::kError;
    finding.path = b.pinned ? a.path : b.path;
    report_.findings.add(std::move(finding));
  }
}

}  // namespace

void judge_files(const Hashed& hashed, Report& report) {
  Judge judge(hashed, report);
  judge.pinned();
  judge.extra();
  judge.case_collisions();
  warn_of_records(hashed.pin, hashed.staging, report);
}

void add_error(Report& report, diag::Diagnostic diagnostic, const std::string& path) {
  diagnostic.severity = diag::Severity::kError;
  diagnostic.path = path;
  report.findings.add(std::move(diagnostic));
}

}  // namespace sweep::weights
