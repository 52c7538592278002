#include "orchestrator/weights/pin_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/schema/model_path.h"
#include "orchestrator/weights/safetensors.h"
#include "orchestrator/weights/shard_check.h"
#include "orchestrator/weights/staged_files.h"

namespace sweep::weights {

namespace {

// The totals of the index of a folder whose structure was checked, if it has one.
std::optional<IndexTotals> totals_of(const std::vector<StagedFile>& files) {
  const auto found = std::find_if(files.begin(), files.end(), [](const auto& f) { return f.path == kIndexName; });
  if (found == files.end()) return std::nullopt;
  const auto text = base::read_file(found->opened, kLargestIndex);
  if (!text) return std::nullopt;
  diag::Diagnostics reported_before;
  const auto index = parse_index(*text, found->path, reported_before);
  return index ? index->totals() : std::nullopt;
}

void add(diag::Diagnostics& diagnostics, diag::RuleId rule, const std::string& path, std::string message,
         std::string help = {}) {
  diag::Diagnostic diagnostic = diag::make(rule, std::move(message), std::move(help));
  diagnostic.path = path;
  diagnostics.add(std::move(diagnostic));
}

void check_names(const std::vector<StagedFile>& files, diag::Diagnostics& diagnostics) {
  for (const StagedFile& file : files)
    if (const auto reason = schema::unsafe_reason(file.path))
      add(diagnostics, diag::rule::weights_path_escape, file.path,
          fmt::format("the file name \"{}\" {}", file.path, *reason), "no pin can hold such a name: rename the file");
}

std::vector<PinnedFile> pinned_files(const std::vector<StagedFile>& files, const HashOptions& options,
                                     diag::Diagnostics& diagnostics, const std::stop_token& stop) {
  std::vector<HashTask> tasks;
  tasks.reserve(files.size());
  for (const StagedFile& file : files) tasks.push_back({.file = file.opened, .size = file.size});
  const std::vector<HashOutcome> outcomes = hash_files(tasks, options, stop);
  std::vector<PinnedFile> pinned;
  size_t not_done = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const HashOutcome& outcome = outcomes[i];
    const std::string& path = files[i].path;
    switch (outcome.state) {
      case HashState::kNotDone:
        ++not_done;
        break;
      case HashState::kUnreadable:
        add(diagnostics, diag::rule::weights_unreadable, path, fmt::format("\"{}\": {}", path, outcome.reason));
        break;
      case HashState::kChanged:
        add(diagnostics, diag::rule::weights_changed, path, fmt::format("\"{}\": {}", path, outcome.reason),
            "pin again once nothing writes to the folder any more");
        break;
      case HashState::kDone:
        pinned.push_back({.path = path, .size = outcome.size, .sha256 = outcome.sha256, .git_blob = std::nullopt});
        break;
    }
  }
  if (not_done != 0)
    add(diagnostics, diag::rule::weights_not_checked, "",
        fmt::format("interrupted: {} of {} files were not hashed", not_done, files.size()));
  return pinned;
}

}  // namespace

std::optional<Pin> pin_from_dir(const std::filesystem::path& dir, const PinSource& source, const HashOptions& options,
                                diag::Diagnostics& diagnostics, const std::stop_token& stop) {
  const size_t errors_before = diagnostics.error_count();
  const Staging staging = stage(dir, diagnostics);
  const std::string& snapshot = staging.located.commit;
  if (source.revision && !snapshot.empty() && *source.revision != snapshot)
    add(diagnostics, diag::rule::weights_revision_mismatch, "",
        fmt::format("{} is the snapshot of {}, asked for was {}", dir.string(), snapshot, *source.revision),
        "name the folder of the other snapshot, or leave the revision out");
  Pin pin{.model = source.model, .complete = true, .generator = source.generator};
  check_names(staging.files, diagnostics);
  check_shards(staging, pin, diagnostics);
  if (diagnostics.error_count() != errors_before) return std::nullopt;  // hashing would take long, and be for nothing
  pin.index = totals_of(staging.files);
  pin.files = pinned_files(staging.files, options, diagnostics, stop);
  if (diagnostics.error_count() != errors_before) return std::nullopt;
  if (source.revision)
    pin.revision = *source.revision;
  else
    pin.revision = snapshot.empty() ? content_revision(pin.files) : snapshot;
  return pin;
}

}  // namespace sweep::weights
