#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "orchestrator/base/file.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/kernels.h"
#include "orchestrator/gate/arch.h"
#include "orchestrator/gate/build.h"
#include "orchestrator/gate/gate.h"
#include "orchestrator/pipeline/locations.h"

namespace sweep::cli {

namespace {

struct KernelsOptions {
  std::string arch = "cpu";
  bool quick = false;
  uint64_t seed = 1;
};

diag::Result<gate::KernelBuild> build(const Context& context, const KernelsOptions& options,
                                      const pipeline::Locations& locations) {
  const auto arch = gate::parse_arch(options.arch);
  if (!arch)
    return diag::fail(diag::rule::kernels_unknown_arch, fmt::format("no kernel architecture \"{}\"", options.arch),
                      "one of cpu, sm_90a, sm_100a, sm_103a");
  diag::Diagnostics diagnostics;
  auto built = gate::build_kernels(
      {.arch = *arch, .sources = locations.root / "kernels", .cache = locations.cache},
      [&](std::string_view text) {
        if (!context.quiet) context.console.err(fmt::format("{}\n", text));
      },
      context.stop, diagnostics);
  for (const diag::Diagnostic& diagnostic : diagnostics.items()) context.console.report(diagnostic);
  return built;
}

std::string build_text(const gate::KernelBuild& made) {
  return fmt::format(
      "{} kernels {} ({}, {:.1f} s)\n"
      "  library   {}\n"
      "  sha256    {}\n"
      "  baseline  {}\n"
      "  sha256    {}\n"
      "  sources   {}\n"
      "  compiler  {}\n",
      gate::arch_info(made.arch).name, made.content_id, made.found ? "found" : "built", made.seconds,
      made.library.string(), made.library_sha256, made.baseline.string(), made.baseline_sha256, made.source_sha256,
      made.compiler);
}

ExitCode run_build(const Context& context, const KernelsOptions& options) {
  const auto locations = pipeline::find_locations(context.root);
  if (!locations) return fail(context, locations.error());
  const auto made = build(context, options, *locations);
  if (!made) return fail(context, made.error());
  context.console.out(context.console.format() == Format::kJson ? gate::to_json(*made).dump(2) + "\n"
                                                                : build_text(*made));
  return ExitCode::kGood;
}

ExitCode run_gate(const Context& context, const KernelsOptions& options) {
  const auto locations = pipeline::find_locations(context.root);
  if (!locations) return fail(context, locations.error());
  const auto made = build(context, options, *locations);
  if (!made) return fail(context, made.error());
  const std::filesystem::path folder = locations->cache / "gate";
  if (const auto done = base::make_directories(folder); !done)
    return fail(context, diag::make(diag::rule::file_unwritable, done.error().text()));
  const auto report = gate::run_gate(*made,
                                     {.program = locations->programs / "flashmla-gate",
                                      .full = !options.quick,
                                      .seed = options.seed,
                                      .folder = folder},
                                     context.stop);
  if (!report) return fail(context, report.error());
  if (context.console.format() == Format::kJson) {
    context.console.out(report->document.dump(2) + "\n");
  } else {
    context.console.out(build_text(*made));
    context.console.out(fmt::format("gate: {} of {} cells passed in {:.1f} s; report {}\n",
                                    report->cells - static_cast<int64_t>(report->failed_cells.size()), report->cells,
                                    report->seconds, (folder / "gate-report.json").string()));
  }
  if (!report->passed) return fail(context, gate::gate_failure(*made, *report));
  return ExitCode::kGood;
}

}  // namespace

void add_kernels(CLI::App& app, Action& action) {
  auto options = std::make_shared<KernelsOptions>();
  CLI::App* command = app.add_subcommand("kernels", "Build and gate the bundled FlashMLA kernels");
  command->require_subcommand(1);
  CLI::App* build_command = command->add_subcommand(
      "build", "Compile the kernels into the content-addressed cache, or find them there; print their SHA-256");
  CLI::App* gate_command = command->add_subcommand(
      "gate", "Build, then compare with the FP64 oracle on output and LSE, with the padded build, and run to run");
  for (CLI::App* sub : {build_command, gate_command})
    sub->add_option("--arch", options->arch, "cpu, sm_90a (H200), sm_100a (B200), sm_103a (B300)")->type_name("ARCH");
  gate_command->add_flag("--quick", options->quick, "The short case set that precedes every run");
  gate_command->add_option("--seed", options->seed, "Of the generated cases")->type_name("N");
  build_command->callback(
      [options, &action] { action = [options](Context& context) { return run_build(context, *options); }; });
  gate_command->callback(
      [options, &action] { action = [options](Context& context) { return run_gate(context, *options); }; });
}

}  // namespace sweep::cli
