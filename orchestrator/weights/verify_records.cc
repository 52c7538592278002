#include "orchestrator/weights/verify_records.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/hex.h"
#include "orchestrator/diag/rules/weights.h"

namespace sweep::weights {

namespace {

enum class Match : uint8_t { kSame, kOther, kIncomparable };

// Only like is compared with like: the pin of a small file may have a SHA-256 where the hub's identifier is a blob id.
Match compare(const PinnedFile& pinned, std::string_view etag) {
  if (pinned.sha256 == etag || pinned.git_blob == etag) return Match::kSame;
  const bool same_kind = (etag.size() == base::kSha256Digits && pinned.sha256) ||
                         (etag.size() == base::kGitBlobDigits && pinned.git_blob) || (pinned.sha256 && pinned.git_blob);
  return same_kind ? Match::kOther : Match::kIncomparable;
}

std::string pinned_identity(const PinnedFile& pinned) {
  return pinned.sha256 ? *pinned.sha256 : pinned.git_blob.value_or("nothing");
}

std::string files_text(size_t count) {
  return fmt::format("{} file{}", count, count == 1 ? "" : "s");
}

std::string named(const std::vector<std::string>& paths) {
  std::string text;
  for (size_t i = 0; i < std::min(paths.size(), kMostNamed); ++i)
    text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", paths[i]);
  if (paths.size() > kMostNamed) text += fmt::format(" and {} more", paths.size() - kMostNamed);
  return text;
}

class Records {
 public:
  Records(const Pin& pin, const Staging& staging, Report& report) : pin_(pin), staging_(staging), report_(report) {
    for (const DownloadRecord& record : staging.records.records) by_path_.emplace(record.path, &record);
  }

  void commits();
  void identifiers();
  void malformed(diag::Severity severity);
  void incomplete();
  void statuses();

 private:
  bool in_cache() const { return staging_.located.layout == Layout::kHubCache; }
  const DownloadRecord* of(const PinnedFile& file) const {
    const auto found = by_path_.find(file.path);
    return found == by_path_.end() ? nullptr : found->second;
  }
  void add(diag::RuleId rule, diag::Severity severity, const std::string& path, std::string message,
           std::string help = {}) {
    diag::Diagnostic finding = diag::make(rule, std::move(message), std::move(help));
    finding.severity = severity;
    finding.path = path;
    report_.findings.add(std::move(finding));
  }
  void other_identifier(const PinnedFile& pinned, const DownloadRecord& record, diag::Severity severity);
  bool is_newer_than_record(const PinnedFile& pinned, const DownloadRecord& record) const;
  FileStatus status(const PinnedFile& pinned);

  const Pin& pin_;
  const Staging& staging_;
  Report& report_;
  std::unordered_map<std::string_view, const DownloadRecord*> by_path_;
  std::vector<std::string> without_record_;
  std::vector<std::string> newer_;  // than their record
};

// One finding with the number of files of each commit; the files of the smaller groups are named.
void Records::commits() {
  if (in_cache()) return;  // a snapshot has one commit by its name
  std::map<std::string, std::vector<std::string>> paths_by_commit;
  for (const PinnedFile& file : pin_.files)
    if (const DownloadRecord* record = of(file)) paths_by_commit[record->commit].push_back(file.path);
  if (paths_by_commit.empty()) return;
  if (paths_by_commit.size() == 1 && paths_by_commit.begin()->first == pin_.revision) return;
  const auto largest = std::max_element(paths_by_commit.begin(), paths_by_commit.end(),
                                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string text;
  for (const auto& [commit, paths] : paths_by_commit) {
    text += fmt::format("{}{} of commit {}{}", text.empty() ? "" : ", ", files_text(paths.size()), commit,
                        commit == pin_.revision ? " (pinned)" : "");
    if (commit != largest->first) text += fmt::format(": {}", named(paths));
  }
  add(diag::rule::weights_mixed_revisions, diag::Severity::kWarning, "",
      fmt::format("the download records are not all of the pinned commit {}: {}", pin_.revision, text),
      "only the content decides; fetch the named files again at the pinned revision to mend the records");
}

void Records::other_identifier(const PinnedFile& pinned, const DownloadRecord& record, diag::Severity severity) {
  const std::string_view source = in_cache() ? "the link leads to blob" : "the download record is of";
  add(diag::rule::weights_stale_record, severity, pinned.path,
      fmt::format("\"{}\": {} {}, the pin has {}", pinned.path, source, record.etag, pinned_identity(pinned)),
      "the file was fetched for another revision, or replaced since");
}

void Records::identifiers() {
  for (const PinnedFile& file : pin_.files)
    if (const DownloadRecord* record = of(file); record != nullptr && compare(file, record->etag) == Match::kOther)
      other_identifier(file, *record, diag::Severity::kWarning);
}

void Records::malformed(diag::Severity severity) {
  for (const MalformedRecord& record : staging_.records.malformed)
    add(diag::rule::weights_record_malformed, severity, record.path,
        fmt::format("the download record \"{}\" cannot be understood: {}", record.path, record.reason),
        "delete it; the client writes it again at the next download");
}

void Records::incomplete() {
  std::unordered_map<std::string_view, std::string_view> path_by_identity;
  for (const PinnedFile& file : pin_.files) {
    if (file.sha256) path_by_identity.emplace(*file.sha256, file.path);
    if (file.git_blob) path_by_identity.emplace(*file.git_blob, file.path);
  }
  std::vector<std::string> left;
  for (const std::string& name : staging_.records.incomplete) {
    // "<etag>.incomplete" in a cache, "<hash of the path>.<etag>.incomplete" in a local folder.
    std::string_view etag = name;
    etag.remove_suffix(std::string_view(".incomplete").size());
    etag.remove_prefix(etag.find_last_of("./") + 1);  // npos + 1 is 0
    const auto found = path_by_identity.find(etag);
    if (found != path_by_identity.end())
      left.emplace_back(found->second);
    else if (!in_cache())  // in a cache it may be of any other revision
      left.push_back(name);
  }
  if (left.empty()) return;
  add(diag::rule::weights_incomplete_download, diag::Severity::kWarning, "",
      fmt::format("{} left incomplete by a download: {}", files_text(left.size()), named(left)),
      "the begin of a file that was never finished; the client continues it at the next download");
}

// huggingface_hub, _local_folder.py: the client ignores a record when the file was written more than a second later.
bool Records::is_newer_than_record(const PinnedFile& pinned, const DownloadRecord& record) const {
  if (in_cache() || record.written == 0) return false;
  struct stat status {};
  if (::lstat((staging_.located.root / pinned.path).c_str(), &status) != 0) return false;
  const double written = static_cast<double>(status.st_mtim.tv_sec) +
                         static_cast<double>(status.st_mtim.tv_nsec) / base::kNanosecondsPerSecond;
  return written - 1 > record.written;
}

FileStatus Records::status(const PinnedFile& pinned) {
  const DownloadRecord* record = of(pinned);
  if (record == nullptr) {
    without_record_.push_back(pinned.path);
    return FileStatus::kNotChecked;
  }
  if (is_newer_than_record(pinned, *record)) newer_.push_back(pinned.path);
  switch (compare(pinned, record->etag)) {
    case Match::kSame:
      return FileStatus::kIdentifierOnly;
    case Match::kOther:
      other_identifier(pinned, *record, diag::Severity::kError);
      break;
    case Match::kIncomparable:
      add(diag::rule::weights_no_record, diag::Severity::kWarning, pinned.path,
          fmt::format("\"{}\": the download record is of {}, and the pin has no identifier of that kind", pinned.path,
                      record->etag));
  }
  return FileStatus::kNotChecked;
}

void Records::statuses() {
  size_t same = 0;
  for (const PinnedFile& file : pin_.files) {
    const FileStatus found = status(file);
    if (found == FileStatus::kIdentifierOnly) ++same;
    report_.files.push_back({.path = file.path, .size = {}, .sha256 = {}, .status = found});
  }
  if (by_path_.empty())
    return add(
        diag::rule::weights_no_record, diag::Severity::kError, "",
        fmt::format("{} has no download records that could be compared with the pin", staging_.located.root.string()),
        "verify the content: leave --records-only out");
  if (!without_record_.empty())
    add(diag::rule::weights_no_record, diag::Severity::kWarning, "",
        fmt::format("{} without a download record: {}", files_text(without_record_.size()), named(without_record_)),
        "nothing is known of them without hashing");
  if (!newer_.empty())
    add(diag::rule::weights_stale_record, diag::Severity::kWarning, "",
        fmt::format("{} written after the download record: {}", files_text(newer_.size()), named(newer_)),
        "a record says nothing about a file that changed since");
  if (same != 0)
    add(diag::rule::weights_identifier_only, diag::Severity::kWarning, "",
        fmt::format("{}: identifier only, bytes not hashed", files_text(same)),
        "the right objects were asked for; what is on disk is not known before `sweepctl weights verify` without "
        "--records-only");
}

}  // namespace

void warn_of_records(const Pin& pin, const Staging& staging, Report& report) {
  Records records(pin, staging, report);
  records.commits();
  records.identifiers();
  records.malformed(diag::Severity::kWarning);
  records.incomplete();
}

void compare_records(const Pin& pin, const Staging& staging, Report& report) {
  Records records(pin, staging, report);
  records.commits();
  records.statuses();
  records.malformed(diag::Severity::kError);
  records.incomplete();
}

}  // namespace sweep::weights
