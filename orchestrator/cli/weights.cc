#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/cli/command.h"
#include "orchestrator/cli/terminal_progress.h"
#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/verify.h"

namespace sweep::cli {

namespace {

struct WeightsOptions {
  std::string folder;
  std::string pin;
  unsigned threads = 0;
  std::string model;
  std::string revision;
  std::string generator;
  std::string output;
};

ExitCode verify(const Context& context, const WeightsOptions& options) {
  diag::Diagnostics diagnostics;
  const auto pin = weights::read_pin(options.pin, diagnostics);
  if (!pin) {
    context.console.report(diagnostics, {});
    return ExitCode::kProblems;
  }
  const auto progress = make_progress(context.console, context.quiet);
  progress->begin(pipeline::Stage::kWeights, "hashing");
  const weights::Report report =
      weights::verify(options.folder, *pin,
                      {.threads = options.threads,
                       .progress =
                           [&](const weights::HashProgress& now) {
                             progress->advance(pipeline::Stage::kWeights, static_cast<int64_t>(now.bytes >> 20),
                                               static_cast<int64_t>(now.total_bytes >> 20), "MiB");
                           }},
                      context.stop);
  const std::string outcome = fmt::format("{} files, {:.1f} MB hashed in {:.2f} s: {}", report.files.size(),
                                          static_cast<double>(report.bytes) * 1e-6, report.seconds,
                                          report.verified ? "verified" : "NOT verified");
  if (report.verified)
    progress->end(pipeline::Stage::kWeights, outcome);
  else
    progress->fail(pipeline::Stage::kWeights, outcome);
  if (context.console.format() == Format::kJson) {
    context.console.out(weights::to_json(report).dump(2) + "\n");
  } else {
    context.console.report(report.findings, {});
    context.console.out(fmt::format("{} at {}: {}\n", report.model, report.revision, outcome));
  }
  return report.verified ? ExitCode::kGood : ExitCode::kProblems;
}

ExitCode pin_folder(const Context& context, const WeightsOptions& options) {
  weights::PinSource source{.model = options.model};
  if (!options.revision.empty()) source.revision = options.revision;
  if (!options.generator.empty()) source.generator = options.generator;
  const auto pin = weights::pin_from_dir(options.folder, source, context.stop);
  if (!pin) return fail(context, pin.error());
  if (options.output.empty()) {
    context.console.out(weights::to_text(*pin));
    return ExitCode::kGood;
  }
  if (const auto written = weights::write_pin(options.output, *pin); !written) return fail(context, written.error());
  context.console.out(
      fmt::format("{}: {} files of {} at {}\n", options.output, pin->files.size(), pin->model, pin->revision));
  return ExitCode::kGood;
}

}  // namespace

void add_weights(CLI::App& app, Action& action) {
  auto options = std::make_shared<WeightsOptions>();
  CLI::App* command = app.add_subcommand("weights", "Pin and verify model files by content");
  command->require_subcommand(1);

  CLI::App* verify_command = command->add_subcommand(
      "verify", "Hash every file of a folder and compare with a pin; all findings in one report");
  verify_command->add_option("dir", options->folder, "The staged model")->required()->type_name("DIR");
  verify_command->add_option("--pin", options->pin, "Pin file, as in matrix/models/")->required()->type_name("FILE");
  verify_command->add_option("--threads", options->threads, "Files hashed at once; 0: one per core")->type_name("N");
  verify_command->callback(
      [options, &action] { action = [options](Context& context) { return verify(context, *options); }; });

  CLI::App* pin_command = command->add_subcommand("pin", "Write the pin of a model that is in a local folder");
  pin_command->add_option("--from-dir", options->folder, "The model's folder")->required()->type_name("DIR");
  pin_command->add_option("--model", options->model, "Its name, ORG/NAME")->required()->type_name("MODEL");
  pin_command->add_option("--revision", options->revision, "40 hex digits")
      ->type_name("REV")
      ->default_str("derived from the content");
  pin_command->add_option("--generator", options->generator, "How the model was made, if it comes from no hub")
      ->type_name("TEXT");
  pin_command->add_option("--output", options->output, "The pin file")
      ->type_name("FILE")
      ->default_str("standard output");
  pin_command->callback(
      [options, &action] { action = [options](Context& context) { return pin_folder(context, *options); }; });
}

}  // namespace sweep::cli
