#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "orchestrator/cli/command.h"
#include "orchestrator/weights/pin.h"

namespace sweep::cli {

namespace {

struct PinOptions {
  std::string folder;
  std::string model;
  std::string revision;
  std::string generator;
  std::string output;
};

ExitCode pin_folder(const Context& context, const PinOptions& options) {
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

void add_weights_pin(CLI::App& weights_command, Action& action) {
  auto options = std::make_shared<PinOptions>();
  CLI::App* command = weights_command.add_subcommand("pin", "Write the pin of a model that is in a local folder");
  command->add_option("--from-dir", options->folder, "The model's folder")->required()->type_name("DIR");
  command->add_option("--model", options->model, "Its name, ORG/NAME")->required()->type_name("MODEL");
  command->add_option("--revision", options->revision, "40 hex digits")
      ->type_name("REV")
      ->default_str("derived from the content");
  command->add_option("--generator", options->generator, "How the model was made, if it comes from no hub")
      ->type_name("TEXT");
  command->add_option("--output", options->output, "The pin file")->type_name("FILE")->default_str("standard output");
  command->callback(
      [options, &action] { action = [options](Context& context) { return pin_folder(context, *options); }; });
}

}  // namespace sweep::cli
