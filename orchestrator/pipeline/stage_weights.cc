#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <vector>

#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/run.h"
#include "orchestrator/engine/embedded/make_model.h"
#include "orchestrator/engine/embedded/model_shapes.h"
#include "orchestrator/pipeline/hash_progress.h"
#include "orchestrator/pipeline/stages.h"
#include "orchestrator/pipeline/weights_agreement.h"
#include "orchestrator/weights/layout.h"
#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/verify.h"

namespace sweep::pipeline {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;
using nlohmann::json;

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
  engine::embedded::MakeModelOptions options;
  if (const auto* shape = engine::embedded::shape_of_model(pin.model)) options.config = shape->config;
  return engine::embedded::make_model(folder, options);
}

// The report in the stage's document, if the run is resumed and the document still can be understood.
std::optional<weights::Report> report_in(std::optional<json> document) {
  if (!document) return std::nullopt;
  (*document)["schema_version"] = weights::kReportVersion;  // the stage file has its own
  auto report = weights::report_from_json(*document);
  if (!report) return std::nullopt;
  return std::move(*report);
}

// The same files with the same content, by the same pin.
bool is_same_content(const weights::Report& a, const weights::Report& b) {
  return a.verified == b.verified && a.pin_sha256 == b.pin_sha256 &&
         std::equal(a.files.begin(), a.files.end(), b.files.begin(), b.files.end(),
                    [](const weights::FileReport& x, const weights::FileReport& y) {
                      return x.path == y.path && x.sha256 == y.sha256;
                    });
}

std::string outcome_text(const Line& line, const weights::Report& report) {
  constexpr double kMegabyte = 1e-6;
  std::string text =
      fmt::format("{} files, {:.1f} MB verified at revision {}", report.files.size(),
                  static_cast<double>(report.bytes + report.bytes_cached) * kMegabyte, line.job.revision.substr(0, 12));
  if (report.bytes == 0) text += ", unchanged since they were hashed";
  if (!line.options.weights_reports.empty())
    text += fmt::format(", as on {} other hosts", line.options.weights_reports.size());
  return text;
}

// `before` is the stage's document, if the run is resumed: it is kept if it still says what is there.
diag::Result<WeightsOutcome> verify(const Line& line, std::optional<json> before) {
  auto folder = weights_folder(line.job, line.options, line.locations);
  if (!folder) return diag::fail(std::move(folder).error());
  auto pin = load_pin(line);
  if (!pin) return diag::fail(std::move(pin).error());
  if (auto made = make_if_generated(line, *pin, *folder); !made) return diag::fail(std::move(made).error());

  const std::optional<weights::Report> reported = report_in(before);
  const std::vector<weights::KnownDigests> known =
      reported ? weights::known_digests(*reported) : std::vector<weights::KnownDigests>();
  const weights::Report report = weights::verify(*folder, *pin,
                                                 {.expected_model = line.job.model,
                                                  .expected_revision = line.job.revision,
                                                  .cache_folder = line.locations.cache,
                                                  .known = known,
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
  // Of a hub cache, the engine is given the snapshot that was verified.
  diag::Diagnostics said_before;
  *folder = weights::locate(*folder, weights::WantedModel{pin->model, pin->revision}, said_before).root;
  json document = weights::to_json(report);
  document.erase("schema_version");
  document["folder"] = folder->string();
  document["pin"] = line.job.pin;
  document["generated"] = pin->generator.has_value();
  document["file_count"] = report.files.size();
  const auto is_at = [&](const json& earlier) { return earlier.value("folder", json()) == document["folder"]; };
  const bool same = reported && is_same_content(*reported, report) && is_at(*before);
  if (before && !same) void_agreement(*before, document);
  if (same)
    document = std::move(*before);
  else if (auto written = line.folder.write(stage_file::kWeights, document); !written)
    return diag::fail(std::move(written).error());
  if (auto agreed = agree_with_hosts(line, document); !agreed) return diag::fail(std::move(agreed).error());
  if (same)
    line.progress.reuse(Stage::kWeights, outcome_text(line, report));
  else
    line.progress.end(Stage::kWeights, outcome_text(line, report));
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
  auto before = line.folder.read(stage_file::kWeights);
  if (!before) return diag::fail(std::move(before).error());
  return as_stage<WeightsOutcome>(line.progress, Stage::kWeights, "hashing",
                                  [&] { return verify(line, std::move(*before)); });
}

}  // namespace sweep::pipeline
