#include "orchestrator/cli/kernels.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/kernels.h"
#include "orchestrator/gate/arch_device.h"
#include "orchestrator/gate/gate.h"

namespace sweep::cli {

namespace {

struct KernelsOptions {
  std::string arch = "cpu";
  bool resources = false;
  bool quick = false;
  uint64_t seed = 1;
};

std::string build_text(const gate::KernelBuild& made) {
  const gate::ArchInfo& arch = gate::arch_info(made.arch);
  std::string out = fmt::format("{} kernels {} ({}, {:.1f} s); {}\n", arch.name, made.content_id,
                                made.found ? "found" : "built", made.seconds, arch.hardware);
  const auto row = [&out](std::string_view name, std::string_view value) {
    out += fmt::format("  {:<11} {}\n", name, value);
  };
  row("library", made.library.string());
  row("sha256", made.library_sha256);
  row("baseline", made.baseline.string());
  row("sha256", made.baseline_sha256);
  if (!made.plain_read.empty()) row("plain read", made.plain_read.string());
  if (!made.resources.empty()) row("resources", made.resources.string());
  row("sources", made.source_sha256);
  row("compiler", made.compiler);
  if (!made.device_compiler.empty()) row("", made.device_compiler);
  return out;
}

// What ptxas gave each kernel. Shared memory asked for at launch is not in it.
std::string resources_text(const gate::KernelBuild& made) {
  if (made.resources.empty()) return "the compiler reports no resources for this architecture\n";
  const auto text = base::read_file(made.resources);
  const auto document = nlohmann::json::parse(text ? *text : "", nullptr, false);
  const auto kernels = document.is_object() ? document.find("kernels") : document.end();
  if (kernels == document.end() || !kernels->is_array()) return "";
  std::string out = "\nregisters  shared B  stack B  kernel\n";
  for (const nlohmann::json& kernel : *kernels)
    out +=
        fmt::format("{:>9}  {:>8}  {:>7}  {}\n", kernel.value("registers", 0), kernel.value("static_shared_bytes", 0),
                    kernel.value("stack_bytes", 0), kernel.value("kernel", ""));
  return out;
}

ExitCode run_build(const Context& context, const KernelsOptions& options) {
  const auto locations = pipeline::find_locations(context.root);
  if (!locations) return fail(context, locations.error());
  const auto arch = kernel_arch(options.arch);
  if (!arch) return fail(context, arch.error());
  const auto made = find_or_build(context, *arch, *locations);
  if (!made) return fail(context, made.error());
  if (context.console.format() == Format::kJson)
    context.console.out(gate::to_json(*made).dump(2) + "\n");
  else
    context.console.out(build_text(*made) + (options.resources ? resources_text(*made) : ""));
  return ExitCode::kGood;
}

ExitCode run_gate(const Context& context, const KernelsOptions& options) {
  const auto locations = pipeline::find_locations(context.root);
  if (!locations) return fail(context, locations.error());
  const auto arch = kernel_arch(options.arch);
  if (!arch) return fail(context, arch.error());
  if (const auto device = gate::check_device(*arch); !device) return fail(context, device.error());
  const auto made = find_or_build(context, *arch, *locations);
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

diag::Result<gate::Arch> kernel_arch(const std::string& name) {
  if (const auto arch = gate::parse_arch(name)) return *arch;
  return diag::fail(diag::rule::kernels_unknown_arch, fmt::format("no kernel architecture \"{}\"", name),
                    "one of cpu, sm_90a, sm_100a, sm_103a");
}

diag::Result<gate::KernelBuild> find_or_build(const Context& context, gate::Arch arch,
                                              const pipeline::Locations& locations) {
  diag::Diagnostics diagnostics;
  auto built = gate::build_kernels(
      {.arch = arch, .sources = locations.root / "kernels", .cache = locations.cache},
      [&](std::string_view text) {
        if (!context.quiet) context.console.err(fmt::format("{}\n", text));
      },
      context.stop, diagnostics);
  for (const diag::Diagnostic& diagnostic : diagnostics.items()) context.console.report(diagnostic);
  return built;
}

void add_kernels(CLI::App& app, Action& action) {
  auto options = std::make_shared<KernelsOptions>();
  CLI::App* command = app.add_subcommand("kernels", "Build, gate and time the bundled FlashMLA kernels");
  command->require_subcommand(1);
  CLI::App* build_command = command->add_subcommand(
      "build",
      "Compile the kernels into the content-addressed cache, or find them there; print their SHA-256. CUDA "
      "architectures "
      "need NVIDIA's nvcc (sm_90a 12.0, sm_100a 12.8, sm_103a 12.9 or newer) but no GPU. CXX and CUDACXX name the "
      "compilers");
  CLI::App* gate_command = command->add_subcommand("gate",
                                                   "Build, then compare with the FP64 oracle on output and LSE, with "
                                                   "the padded build, and run to run; on a host that "
                                                   "has the GPU");
  for (CLI::App* sub : {build_command, gate_command})
    sub->add_option("--arch", options->arch, "cpu, sm_90a (H200), sm_100a (B200), sm_103a (B300)")->type_name("ARCH");
  build_command->add_flag("--resources", options->resources,
                          "Registers, static shared memory and stack of each kernel");
  gate_command->add_flag("--quick", options->quick, "The short case set that precedes every run");
  gate_command->add_option("--seed", options->seed, "Of the generated cases")->type_name("N");
  build_command->callback(
      [options, &action] { action = [options](Context& context) { return run_build(context, *options); }; });
  gate_command->callback(
      [options, &action] { action = [options](Context& context) { return run_gate(context, *options); }; });
  add_kernels_bench(*command, action);
}

}  // namespace sweep::cli
