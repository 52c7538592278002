#include "orchestrator/weights/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/weights/shard_check.h"
#include "orchestrator/weights/staged_files.h"

namespace sweep::weights {

namespace {

constexpr double kNanosecondsPerSecond = 1e9;

// Kinds of files that engines pick up by themselves.
constexpr auto kLoadedSuffixes = std::to_array<std::string_view>(
    {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".json", ".py", ".model", ".txt", ".jinja", ".tiktoken"});

bool is_loaded_by_engines(std::string_view path) {
  return std::any_of(kLoadedSuffixes.begin(), kLoadedSuffixes.end(),
                     [&](std::string_view suffix) { return path.ends_with(suffix); });
}

class Verification {
 public:
  Verification(const std::filesystem::path& dir, const Pin& pin, const VerifyOptions& options,
               const std::stop_token& stop)
      : dir_(dir), pin_(pin), options_(options), stop_(stop) {}

  Report run();

 private:
  void check_pin();
  void judge_pinned();
  void judge(const PinnedFile& pinned, const StagedFile& staged, const HashOutcome& outcome);
  FileStatus judge_content(const PinnedFile& pinned, const HashOutcome& outcome);
  void judge_extra();
  void add(diag::RuleId rule, const std::string& path, std::string message, std::string help = {});

  const std::filesystem::path& dir_;
  const Pin& pin_;
  const VerifyOptions& options_;
  const std::stop_token& stop_;
  std::vector<StagedFile> staged_;
  std::map<std::string_view, const PinnedFile*> pinned_by_path_;
  std::vector<HashOutcome> outcomes_;  // as staged_
  Report report_;
};

void Verification::add(diag::RuleId rule, const std::string& path, std::string message, std::string help) {
  diag::Diagnostic diagnostic = diag::make(rule, std::move(message), std::move(help));
  diagnostic.severity = diag::Severity::kError;  // an incomplete pin is a warning by itself, no basis for verifying
  diagnostic.path = path;
  report_.findings.add(std::move(diagnostic));
}

void Verification::check_pin() {
  if (options_.expected_model && *options_.expected_model != pin_.model)
    add(diag::rule::weights_revision_mismatch, "",
        fmt::format("the pin is for model \"{}\", expected \"{}\"", pin_.model, *options_.expected_model));
  if (options_.expected_revision && *options_.expected_revision != pin_.revision)
    add(diag::rule::weights_revision_mismatch, "",
        fmt::format("the pin is for revision {}, expected {}", pin_.revision, *options_.expected_revision));
  if (pin_.generator && content_revision(pin_.files) != pin_.revision)
    add(diag::rule::weights_revision_mismatch, "",
        fmt::format("the pin of a generated model names revision {}, its files make {}", pin_.revision,
                    content_revision(pin_.files)),
        "make the pin again with `sweepctl weights pin --from-dir`");
  if (!pin_.complete)
    add(diag::rule::weights_pin_incomplete, "", "the pin is marked as incomplete",
        "make the pin again with `sweepctl weights pin`");
  else if (pin_.files.empty())
    add(diag::rule::weights_pin_incomplete, "", "the pin lists no file");
}

Report Verification::run() {
  const int64_t started_ns = base::monotonic_ns();
  report_.model = pin_.model;
  report_.revision = pin_.revision;
  for (const PinnedFile& file : pin_.files) pinned_by_path_[file.path] = &file;
  check_pin();
  staged_ = list_staged(dir_, report_.findings);
  check_shards(staged_, pin_, report_.findings);

  // Extra files are hashed too: the report then says what they are.
  std::vector<HashTask> tasks;
  for (const StagedFile& file : staged_) {
    const auto pinned = pinned_by_path_.find(file.path);
    tasks.push_back({.file = file.opened,
                     .size = file.size,
                     .git_blob = pinned != pinned_by_path_.end() && pinned->second->git_blob.has_value()});
  }
  outcomes_ = hash_files(tasks, {.threads = options_.threads, .progress = options_.progress}, stop_);
  for (const HashOutcome& outcome : outcomes_) report_.bytes += outcome.size;

  judge_pinned();
  judge_extra();
  report_.cancelled = stop_.stop_requested();
  std::sort(report_.files.begin(), report_.files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  report_.findings.normalise();
  report_.seconds = static_cast<double>(base::monotonic_ns() - started_ns) / kNanosecondsPerSecond;
  report_.verified = !report_.findings.has_errors() &&
                     std::all_of(report_.files.begin(), report_.files.end(), [](const FileReport& file) {
                       return file.status == FileStatus::kOk || file.status == FileStatus::kExtra;
                     });
  return std::move(report_);
}

void Verification::judge_pinned() {
  size_t not_done = 0;
  for (const PinnedFile& pinned : pin_.files) {
    const auto staged =
        std::find_if(staged_.begin(), staged_.end(), [&](const auto& file) { return file.path == pinned.path; });
    if (staged == staged_.end()) {
      report_.files.push_back({.path = pinned.path, .size = {}, .sha256 = {}, .status = FileStatus::kMissing});
      add(diag::rule::weights_missing_file, pinned.path, fmt::format("\"{}\" is pinned and not there", pinned.path),
          fmt::format("fetch it again into {}", dir_.string()));
      continue;
    }
    const HashOutcome& outcome = outcomes_[static_cast<size_t>(staged - staged_.begin())];
    if (outcome.state == HashState::kNotDone) ++not_done;
    judge(pinned, *staged, outcome);
  }
  if (not_done != 0)
    add(diag::rule::weights_not_checked, "",
        fmt::format("interrupted: the content of {} of {} pinned files was not checked", not_done, pin_.files.size()));
}

FileStatus Verification::judge_content(const PinnedFile& pinned, const HashOutcome& outcome) {
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

void Verification::judge(const PinnedFile& pinned, const StagedFile& staged, const HashOutcome& outcome) {
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
      file.size = outcome.size;
      file.sha256 = outcome.sha256;
      file.status = judge_content(pinned, outcome);
      break;
  }
  if (pinned.size && *pinned.size != *file.size) {
    if (outcome.state == HashState::kDone) file.status = FileStatus::kSizeMismatch;
    add(diag::rule::weights_size_mismatch, pinned.path,
        fmt::format("\"{}\" has {} bytes, expected {}", pinned.path, *file.size, *pinned.size),
        "delete the file and fetch it again");
  }
  report_.files.push_back(std::move(file));
}

void Verification::judge_extra() {
  for (size_t i = 0; i < staged_.size(); ++i) {
    const StagedFile& staged = staged_[i];
    if (pinned_by_path_.contains(staged.path)) continue;
    FileReport file{.path = staged.path, .size = staged.size, .sha256 = {}, .status = FileStatus::kExtra};
    if (outcomes_[i].state == HashState::kDone) file.sha256 = outcomes_[i].sha256;
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

Report verify(const std::filesystem::path& dir, const Pin& pin, const VerifyOptions& options,
              const std::stop_token& stop) {
  return Verification(dir, pin, options, stop).run();
}

}  // namespace sweep::weights
