#include <fmt/format.h>
#include <sys/stat.h>

#include <map>
#include <system_error>

#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/run.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/engine/embedded/make_model.h"
#include "orchestrator/pipeline/hash_progress.h"
#include "orchestrator/pipeline/stages.h"
#include "orchestrator/pipeline/weights_agreement.h"
#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/verify.h"

namespace sweep::pipeline {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;
using nlohmann::json;

// Changes when a file of the folder is added, removed, replaced or written: what a resumed run compares instead of
// hashing everything again. Path, device, inode, size and the times of content and metadata of every file.
std::string stat_fingerprint(const fs::path& folder) {
  std::map<std::string, std::string> lines;
  std::error_code error;
  for (auto item = fs::recursive_directory_iterator(folder, error);
       !error && item != fs::recursive_directory_iterator(); item.increment(error)) {
    struct stat s {};
    if (::stat(item->path().c_str(), &s) != 0 || !S_ISREG(s.st_mode)) continue;
    lines[item->path().string()] = fmt::format("{} {} {} {}.{} {}.{}", s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec,
                                               s.st_mtim.tv_nsec, s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
  }
  digest::Sha256 hash;
  for (const auto& [path, line] : lines) hash.update(fmt::format("{}\n{}\n", path, line));
  return digest::hex(hash.finish());
}

diag::Result<weights::Pin> load_pin(const Line& line) {
  if (line.job.pin.empty())
    return diag::fail(diag::make_at(
        rule::run_no_pin, line.job.where,
        fmt::format("no pin in matrix/models/ names \"{}\" at revision {}", line.job.model, line.job.revision),
        "make one with `sweepctl weights pin`"));
  auto pin = weights::read_pin(line.locations.root / line.job.pin, line.diagnostics);
  if (!pin)
    return diag::fail(rule::run_no_pin, fmt::format("\"{}\" cannot be used", line.job.pin), "see the findings above");
  return std::move(*pin);
}

// A model that comes from no hub is made on the spot; the pin then proves that it is the right one.
diag::Result<diag::Done> make_if_generated(const Line& line, const weights::Pin& pin, const fs::path& folder) {
  std::error_code error;
  if (line.options.weights || !pin.generator || fs::exists(folder, error)) return diag::Done{};
  line.progress.begin(Stage::kWeights, fmt::format("making {}", line.job.model));
  if (auto made = base::make_directories(folder.parent_path()); !made)
    return diag::fail(rule::file_unwritable, made.error().text());
  return engine::embedded::make_model(folder);
}

diag::Result<WeightsOutcome> verify(const Line& line) {
  auto folder = weights_folder(line.job, line.options, line.locations);
  if (!folder) return diag::fail(std::move(folder).error());
  auto pin = load_pin(line);
  if (!pin) return diag::fail(std::move(pin).error());
  if (auto made = make_if_generated(line, *pin, *folder); !made) return diag::fail(std::move(made).error());

  const std::string fingerprint = stat_fingerprint(*folder);
  const weights::Report report = weights::verify(*folder, *pin,
                                                 {.expected_model = line.job.model,
                                                  .expected_revision = line.job.revision,
                                                  .progress = show_hashing(line.progress)},
                                                 line.stop);
  line.diagnostics.add_all(report.findings);
  if (line.stop.stop_requested()) return diag::fail(rule::exec_interrupted, "interrupted while verifying weights");
  if (!report.verified)
    return diag::fail(rule::run_weights_not_verified,
                      fmt::format("{} is not {} at {}: {} findings", folder->string(), line.job.model,
                                  line.job.revision, report.findings.items().size()),
                      pin->generator && !line.options.weights
                          ? fmt::format("delete {} to have it made again", folder->string())
                          : "stage the files again");
  json document = weights::to_json(report);
  document.erase("schema_version");  // the stage file has its own
  document["folder"] = folder->string();
  document["pin"] = line.job.pin;
  document["generated"] = pin->generator.has_value();
  document["file_count"] = report.files.size();
  document["staged_fingerprint"] = fingerprint;
  if (auto written = line.folder.write(stage_file::kWeights, document); !written)
    return diag::fail(std::move(written).error());
  if (auto agreed = agree_with_hosts(line, document); !agreed) return diag::fail(std::move(agreed).error());
  line.progress.end(
      Stage::kWeights,
      fmt::format("{} files, {:.1f} MB verified at revision {}{}", report.files.size(),
                  static_cast<double>(report.bytes + report.bytes_cached) * 1e-6, line.job.revision.substr(0, 12),
                  line.options.weights_reports.empty()
                      ? ""
                      : fmt::format(", as on {} other hosts", line.options.weights_reports.size())));
  return WeightsOutcome{std::move(*folder), std::move(document)};
}

}  // namespace

diag::Result<fs::path> weights_folder(const plan::Job& job, const RunOptions& options, const Locations& locations) {
  if (options.weights) return *options.weights;
  if (job.framework == "embedded") {
    std::string name = job.model;
    for (char& c : name)
      if (c == '/') c = '-';
    return locations.cache / "models" / name / job.revision;
  }
  return diag::fail(rule::run_weights_missing,
                    fmt::format("where the weights of {} are staged is not known", job.model),
                    "name the folder with --weights DIR");
}

diag::Result<WeightsOutcome> verify_weights(const Line& line) {
  auto known = line.folder.read(stage_file::kWeights);
  if (!known) return diag::fail(std::move(known).error());
  if (*known && (**known).value("verified", false)) {
    const fs::path folder = (**known).value("folder", "");
    if ((**known).value("staged_fingerprint", "") == stat_fingerprint(folder)) {
      if (auto agreed = agree_with_hosts(line, **known); !agreed) {
        line.progress.begin(Stage::kWeights, "comparing hosts");
        line.progress.fail(Stage::kWeights, agreed.error().message);
        return diag::fail(std::move(agreed).error());
      }
      line.progress.reuse(Stage::kWeights, "verified before, and no file was touched since");
      return WeightsOutcome{folder, std::move(**known)};
    }
  }
  return as_stage<WeightsOutcome>(line.progress, Stage::kWeights, "hashing", [&] { return verify(line); });
}

}  // namespace sweep::pipeline
