#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/cli/terminal_progress.h"
#include "orchestrator/diag/rules/cli.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/host/host.h"
#include "orchestrator/pipeline/hash_progress.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/weights/host_report.h"
#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/verify.h"

namespace sweep::cli {

namespace {

using Known = std::vector<weights::KnownDigests>;

struct VerifyOptions {
  std::string folder;
  std::string pin;
  std::string report;
  unsigned threads = 0;
  bool resume = false;
  bool no_cache = false;
  bool records_only = false;
};

// What the report that is to be continued knows already: of this host and this pin. None yet is a beginning.
diag::Result<Known> known_before(const VerifyOptions& options, const weights::Pin& pin) {
  std::error_code error;
  if (!options.resume || !std::filesystem::exists(options.report, error)) return Known{};
  auto before = weights::read_host_report(options.report);
  if (!before) return diag::fail(std::move(before).error());
  const weights::Report& report = before->report;
  if (report.host != host::hostname() || report.pin_sha256 != weights::pin_digest(pin)) return Known{};
  return weights::known_digests(report);
}

std::string outcome_text(const weights::Report& report, const VerifyOptions& options) {
  constexpr double kMegabyte = 1e-6;
  if (options.records_only)
    return fmt::format("{} files, download records compared, no content read: content NOT verified",
                       report.files.size());
  std::string text = fmt::format("{} files", report.files.size());
  if (report.bytes != 0 || report.bytes_cached == 0)
    text +=
        fmt::format(", {:.1f} MB hashed in {:.2f} s", static_cast<double>(report.bytes) * kMegabyte, report.seconds);
  if (report.bytes_cached != 0)
    text += fmt::format(", {:.1f} MB unchanged since they were hashed",
                        static_cast<double>(report.bytes_cached) * kMegabyte);
  text += report.verified ? ": verified" : report.cancelled ? ": interrupted, NOT verified" : ": NOT verified";
  return text;
}

diag::Result<diag::Done> write_report(const std::string& path, const weights::Report& report) {
  const auto written = base::write_file_atomic(path, weights::to_json(report).dump(2) + "\n");
  if (!written) return diag::fail(diag::rule::file_unwritable, written.error().text());
  return diag::Done{};
}

ExitCode verify(const Context& context, const VerifyOptions& options) {
  if (options.resume && options.report.empty())
    return fail(context, diag::make(diag::rule::cli_usage, "--resume continues a report, and none is named",
                                    "name it with --report FILE"));
  diag::Diagnostics diagnostics;
  diag::SourceMap sources;
  const auto pin = weights::read_pin(options.pin, diagnostics, &sources);
  if (!pin) {
    context.console.report(diagnostics, sources);
    return ExitCode::kProblems;
  }
  const auto known = known_before(options, *pin);
  if (!known) return fail(context, known.error());
  const auto progress = make_progress(context.console, context.quiet);
  progress->begin(pipeline::Stage::kWeights, options.records_only ? "comparing download records" : "hashing");
  weights::VerifyOptions how{.threads = options.threads, .records_only = options.records_only};
  if (!options.no_cache) how.cache_folder = pipeline::user_cache();
  how.known = *known;
  how.progress = pipeline::show_hashing(*progress);
  const weights::Report report = weights::verify(options.folder, *pin, how, context.stop);

  const std::string outcome = outcome_text(report, options);
  const bool good = report.verified || (options.records_only && !report.findings.has_errors());
  if (good)
    progress->end(pipeline::Stage::kWeights, outcome);
  else
    progress->fail(pipeline::Stage::kWeights, outcome);
  if (context.console.format() == Format::kJson) {
    context.console.out(weights::to_json(report).dump(2) + "\n");
  } else {
    context.console.report(report.findings, {});
    context.console.out(fmt::format("{} at {}: {}\n", report.model, report.revision, outcome));
  }
  if (!options.report.empty())
    if (const auto written = write_report(options.report, report); !written) return fail(context, written.error());
  return good ? ExitCode::kGood : ExitCode::kProblems;
}

}  // namespace

void add_weights_verify(CLI::App& weights_command, Action& action) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = weights_command.add_subcommand(
      "verify", "Hash every file of a model and compare with a pin; all findings in one report");
  command->add_option("dir", options->folder, "The staged model: a plain folder, a hub cache or a download folder")
      ->required()
      ->type_name("DIR");
  command->add_option("--pin", options->pin, "Pin file, as in matrix/models/")->required()->type_name("FILE");
  command->add_option("--threads", options->threads, "Files hashed at once; 0: one per core")->type_name("N");
  command->add_option("--report", options->report, "Also write the report to a file, interrupted or not")
      ->type_name("FILE");
  command->add_flag("--resume", options->resume,
                    "Continue the report of an interrupted verification: its files are not read again if unchanged");
  command->add_flag("--no-cache", options->no_cache, "Read every byte, whatever was verified before");
  command->add_flag("--records-only", options->records_only,
                    "Compare the client's download records with the pin and read no content; never verifies");
  command->footer(
      "Content is compared by SHA-256 or git blob id. What was hashed is remembered by device, inode, size and time\n"
      "stamps, where the file system lets no write pass unseen, so that an unchanged model is verified again in\n"
      "milliseconds.");
  command->callback([options, &action] { action = [options](Context& context) { return verify(context, *options); }; });
}

}  // namespace sweep::cli
