#include "orchestrator/weights/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/weights/shard_check.h"
#include "orchestrator/weights/staged_files.h"
#include "orchestrator/weights/verify_judge.h"
#include "orchestrator/weights/verify_records.h"

namespace sweep::weights {

namespace {

constexpr double kNanosecondsPerSecond = 1e9;

class Verification {
 public:
  Verification(const std::filesystem::path& dir, const Pin& pin, const VerifyOptions& options,
               const std::stop_token& stop)
      : dir_(dir), pin_(pin), options_(options), stop_(stop) {}

  Report run();
  Report run_records_only();

 private:
  void check_pin();
  void add(diag::RuleId rule, std::string message, std::string help = {});

  const std::filesystem::path& dir_;
  const Pin& pin_;
  const VerifyOptions& options_;
  const std::stop_token& stop_;
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

Report Verification::run() {
  const int64_t started_ns = base::monotonic_ns();
  report_.model = pin_.model;
  report_.revision = pin_.revision;
  check_pin();
  const Staging staging = stage(dir_, pin_, report_.findings);
  check_shards(staging, pin_, report_.findings);

  // Extra files are hashed too: the report then says what they are.
  std::unordered_map<std::string_view, const PinnedFile*> pinned_by_path;
  for (const PinnedFile& file : pin_.files) pinned_by_path.emplace(file.path, &file);
  std::vector<HashTask> tasks;
  for (const StagedFile& file : staging.files) {
    const auto pinned = pinned_by_path.find(file.path);
    tasks.push_back({.file = file.opened,
                     .size = file.size,
                     .git_blob = pinned != pinned_by_path.end() && pinned->second->git_blob.has_value()});
  }
  const std::vector<HashOutcome> outcomes =
      hash_files(tasks, {.threads = options_.threads, .progress = options_.progress}, stop_);
  for (const HashOutcome& outcome : outcomes) report_.bytes += outcome.size;

  judge_files({.pin = pin_, .staging = staging, .outcomes = outcomes}, report_);
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

Report Verification::run_records_only() {
  const int64_t started_ns = base::monotonic_ns();
  report_.model = pin_.model;
  report_.revision = pin_.revision;
  check_pin();
  Staging staging = stage(dir_, pin_, report_.findings);
  // The records may be given alone, without the files they are about.
  if (staging.located.found && staging.located.layout == Layout::kPlain)
    staging.records = read_download_records(staging.located.root);
  if (staging.located.found) compare_records(pin_, staging, report_);
  report_.findings.normalise();
  report_.seconds = static_cast<double>(base::monotonic_ns() - started_ns) / kNanosecondsPerSecond;
  return std::move(report_);
}

}  // namespace

Report verify(const std::filesystem::path& dir, const Pin& pin, const VerifyOptions& options,
              const std::stop_token& stop) {
  Verification verification(dir, pin, options, stop);
  return options.records_only ? verification.run_records_only() : verification.run();
}

}  // namespace sweep::weights
