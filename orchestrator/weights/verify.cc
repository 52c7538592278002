#include "orchestrator/weights/verify.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/host/host.h"
#include "orchestrator/weights/shard_check.h"
#include "orchestrator/weights/staged_files.h"
#include "orchestrator/weights/verification_cache.h"
#include "orchestrator/weights/verify_judge.h"
#include "orchestrator/weights/verify_records.h"

namespace sweep::weights {

namespace {

constexpr int64_t kSaveIntervalNs = 5'000'000'000;

// As the files of a staging; absent where there is none, or none that proves anything.
using Stamps = std::vector<std::optional<FileStamp>>;

Stamps stamps_of(const Staging& staging) {
  Stamps stamps;
  for (const StagedFile& file : staging.files) {
    struct stat status {};
    stamps.push_back(::lstat(file.opened.c_str(), &status) == 0 ? std::optional(stamp_of(status)) : std::nullopt);
  }
  return stamps;
}

Stamps stamps_of(std::span<const HashOutcome> outcomes) {
  Stamps stamps;
  for (const HashOutcome& outcome : outcomes)
    stamps.push_back(outcome.state == HashState::kDone ? outcome.stamp : std::nullopt);
  return stamps;
}

// The state of all files by name, empty if a stamp is absent.
std::string state_of(const Staging& staging, const Stamps& stamps) {
  std::vector<NamedStamp> named;
  for (size_t i = 0; i < stamps.size(); ++i) {
    if (!stamps[i]) return {};
    named.push_back({.path = staging.files[i].path, .stamp = *stamps[i]});
  }
  return state_of(named);
}

class Verification {
 public:
  Verification(const std::filesystem::path& dir, const Pin& pin, const VerifyOptions& options,
               const std::stop_token& stop)
      : dir_(dir), pin_(pin), options_(options), stop_(stop) {}

  Report run();
  Report run_records_only();

 private:
  void check_pin();
  Staging begin();
  std::vector<HashTask> tasks_of(const Staging& staging, const Stamps& stamps) const;
  std::vector<HashOutcome> hash(const Staging& staging, const Stamps& stamps);
  bool check_structure(const Staging& staging);
  void add(diag::RuleId rule, std::string message, std::string help = {});

  const std::filesystem::path& dir_;
  const Pin& pin_;
  const VerifyOptions& options_;
  const std::stop_token& stop_;
  std::optional<VerificationCache> cache_;
  Report report_;
};

// An incomplete pin is a warning by itself, but no basis for verifying.
void Verification::add(diag::RuleId rule, std::string message, std::string help) {
  add_error(report_, diag::make(rule, std::move(message), std::move(help)), "");
}

void Verification::check_pin() {
  if (options_.expected_model && *options_.expected_model != pin_.model)
    add(diag::rule::weights_revision_mismatch,
        fmt::format("the pin is for model \"{}\", expected \"{}\"", pin_.model, *options_.expected_model));
  if (options_.expected_revision && *options_.expected_revision != pin_.revision)
    add(diag::rule::weights_revision_mismatch,
        fmt::format("the pin is for revision {}, expected {}", pin_.revision, *options_.expected_revision));
  if (pin_.generator && content_revision(pin_.files) != pin_.revision)
    add(diag::rule::weights_revision_mismatch,
        fmt::format("the pin of a generated model names revision {}, its files make {}", pin_.revision,
                    content_revision(pin_.files)),
        "make the pin again with `sweepctl weights pin --from-dir`");
  if (!pin_.complete)
    add(diag::rule::weights_pin_incomplete, "the pin is marked as incomplete",
        "make the pin again with `sweepctl weights pin`");
  else if (pin_.files.empty())
    add(diag::rule::weights_pin_incomplete, "the pin lists no file");
}

// Extra files are hashed too: the report then says what they are.
std::vector<HashTask> Verification::tasks_of(const Staging& staging, const Stamps& stamps) const {
  std::unordered_map<std::string_view, const PinnedFile*> pinned_by_path;
  for (const PinnedFile& file : pin_.files) pinned_by_path.emplace(file.path, &file);
  std::map<std::pair<uint64_t, uint64_t>, const KnownDigests*> known;
  for (const KnownDigests& digests : options_.known) known[{digests.stamp.device, digests.stamp.inode}] = &digests;

  std::vector<HashTask> tasks;
  for (size_t i = 0; i < stamps.size(); ++i) {
    const StagedFile& file = staging.files[i];
    const auto pinned = pinned_by_path.find(file.path);
    HashTask task{.file = file.opened,
                  .size = file.size,
                  .git_blob = pinned != pinned_by_path.end() && pinned->second->git_blob.has_value()};
    if (const auto& stamp = stamps[i]) {
      const auto found = known.find({stamp->device, stamp->inode});
      if (found != known.end() && found->second->stamp == *stamp)
        task.known = *found->second;
      else if (cache_)
        task.known = cache_->find(*stamp);
    }
    tasks.push_back(std::move(task));
  }
  return tasks;
}

std::vector<HashOutcome> Verification::hash(const Staging& staging, const Stamps& stamps) {
  HashOptions options{.threads = options_.threads, .progress = options_.progress};
  int64_t saved_ns = base::monotonic_ns();
  if (cache_) {
    // Now and then, so that a run that is killed does not begin anew.
    options.finished = [&](size_t, const HashOutcome& outcome) {
      if (outcome.state == HashState::kDone && outcome.stamp)
        cache_->put({.stamp = *outcome.stamp, .sha256 = outcome.sha256, .git_blob = outcome.git_blob});
      if (base::monotonic_ns() - saved_ns < kSaveIntervalNs) return;
      saved_ns = base::monotonic_ns();
      (void)cache_->save();  // tried again at the end, and reported there
    };
  }
  return hash_files(tasks_of(staging, stamps), options, stop_);
}

// Returns whether there was nothing to report.
bool Verification::check_structure(const Staging& staging) {
  const size_t before = report_.findings.items().size();
  check_shards(staging, pin_, report_.findings);
  return report_.findings.items().size() == before;
}

// What every report begins with.
Staging Verification::begin() {
  report_.model = pin_.model;
  report_.revision = pin_.revision;
  report_.pin_sha256 = pin_digest(pin_);
  report_.host = host::hostname();
  check_pin();
  Staging staging = stage(dir_, pin_, report_.findings);
  report_.layout = layout_name(staging.located.layout);
  return staging;
}

Report Verification::run() {
  const int64_t started_ns = base::monotonic_ns();
  Staging staging = begin();
  keep_if_of_pin(staging, pin_, report_.findings);
  if (options_.cache_folder) cache_.emplace(*options_.cache_folder, staging.located.root, report_.pin_sha256);

  const Stamps stamps = stamps_of(staging);
  const std::string state = state_of(staging, stamps);
  const bool known_as_sound = cache_ && !state.empty() && cache_->sound_state() == state;
  bool sound = known_as_sound || check_structure(staging);
  const std::vector<HashOutcome> outcomes = hash(staging, stamps);
  // The headers that were read are those of the bytes that were hashed only if nothing changed in between.
  const bool same_state = !state.empty() && state_of(staging, stamps_of(outcomes)) == state;
  if (known_as_sound && !same_state) sound = check_structure(staging);
  for (const HashOutcome& outcome : outcomes)
    (outcome.from_known ? report_.bytes_cached : report_.bytes) += outcome.size;

  judge_files({.pin = pin_, .staging = staging, .outcomes = outcomes}, report_);
  report_.cancelled = stop_.stop_requested();
  std::sort(report_.files.begin(), report_.files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  if (cache_) {
    if (sound && same_state) cache_->set_sound_state(state);
    if (const auto saved = cache_->save(); !saved)
      report_.findings.add(diag::make(diag::rule::weights_cache_unwritable, saved.error().text(),
                                      "set SWEEPCTL_CACHE to a folder that can be written, or give --no-cache"));
  }
  report_.findings.normalise();
  report_.seconds = static_cast<double>(base::monotonic_ns() - started_ns) / base::kNanosecondsPerSecond;
  report_.verified = !report_.findings.has_errors() &&
                     std::all_of(report_.files.begin(), report_.files.end(), [](const FileReport& file) {
                       return file.status == FileStatus::kOk || file.status == FileStatus::kExtra;
                     });
  return std::move(report_);
}

Report Verification::run_records_only() {
  const int64_t started_ns = base::monotonic_ns();
  Staging staging = begin();
  // The records may be given alone, without the files they are about.
  if (staging.located.found && staging.located.layout == Layout::kPlain)
    staging.records = read_download_records(staging.located.root);
  if (staging.located.found) compare_records(pin_, staging, report_);
  report_.findings.normalise();
  report_.seconds = static_cast<double>(base::monotonic_ns() - started_ns) / base::kNanosecondsPerSecond;
  return std::move(report_);
}

}  // namespace

Report verify(const std::filesystem::path& dir, const Pin& pin, const VerifyOptions& options,
              const std::stop_token& stop) {
  Verification verification(dir, pin, options, stop);
  return options.records_only ? verification.run_records_only() : verification.run();
}

}  // namespace sweep::weights
