#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/cli/command.h"
#include "orchestrator/cli/terminal_progress.h"
#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/verify.h"

namespace sweep::cli {

namespace {

struct VerifyOptions {
  std::string folder;
  std::string pin;
  unsigned threads = 0;
  bool records_only = false;
};

ExitCode verify(const Context& context, const VerifyOptions& options) {
  diag::Diagnostics diagnostics;
  const auto pin = weights::read_pin(options.pin, diagnostics);
  if (!pin) {
    context.console.report(diagnostics, {});
    return ExitCode::kProblems;
  }
  const auto progress = make_progress(context.console, context.quiet);
  progress->begin(pipeline::Stage::kWeights, options.records_only ? "comparing download records" : "hashing");
  const weights::Report report =
      weights::verify(options.folder, *pin,
                      {.threads = options.threads,
                       .records_only = options.records_only,
                       .progress =
                           [&](const weights::HashProgress& now) {
                             progress->advance(pipeline::Stage::kWeights, static_cast<int64_t>(now.bytes >> 20),
                                               static_cast<int64_t>(now.total_bytes >> 20), "MiB");
                           }},
                      context.stop);
  const std::string outcome =
      options.records_only ? fmt::format("{} files, download records compared, no content read: content NOT verified",
                                         report.files.size())
                           : fmt::format("{} files, {:.1f} MB hashed in {:.2f} s: {}", report.files.size(),
                                         static_cast<double>(report.bytes) * 1e-6, report.seconds,
                                         report.verified ? "verified" : "NOT verified");
  if (report.verified || (options.records_only && !report.findings.has_errors()))
    progress->end(pipeline::Stage::kWeights, outcome);
  else
    progress->fail(pipeline::Stage::kWeights, outcome);
  if (context.console.format() == Format::kJson) {
    context.console.out(weights::to_json(report).dump(2) + "\n");
  } else {
    context.console.report(report.findings, {});
    context.console.out(fmt::format("{} at {}: {}\n", report.model, report.revision, outcome));
  }
  if (options.records_only) return report.findings.has_errors() ? ExitCode::kProblems : ExitCode::kGood;
  return report.verified ? ExitCode::kGood : ExitCode::kProblems;
}

}  // namespace

void add_weights_verify(CLI::App& weights_command, Action& action) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = weights_command.add_subcommand(
      "verify", "Hash every file of a folder and compare with a pin; all findings in one report");
  command->add_option("dir", options->folder, "The staged model")->required()->type_name("DIR");
  command->add_option("--pin", options->pin, "Pin file, as in matrix/models/")->required()->type_name("FILE");
  command->add_option("--threads", options->threads, "Files hashed at once; 0: one per core")->type_name("N");
  command->add_flag("--records-only", options->records_only,
                    "Compare the client's download records with the pin and read no content; never verifies");
  command->callback([options, &action] { action = [options](Context& context) { return verify(context, *options); }; });
}

}  // namespace sweep::cli
