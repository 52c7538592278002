#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/cli/kernels.h"
#include "orchestrator/diag/rules/cli.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/kernels.h"
#include "orchestrator/gate/arch_device.h"
#include "orchestrator/gate/bench.h"

namespace sweep::cli {

namespace {

struct BenchOptions {
  std::string arch = "cpu";
  std::filesystem::path out;
  gate::BenchRequest request;

  bool of_gpus_only() const {
    return !request.sections.empty() || !request.heads.empty() || request.replays > 0 || request.quick;
  }
};

std::string heading(const gate::KernelBuild& made) {
  const gate::ArchInfo& arch = gate::arch_info(made.arch);
  return fmt::format("{} kernels {} ({}), sha256 {}\n", arch.name, made.content_id, arch.hardware, made.library_sha256);
}

// The figures stand on stdout by now, or are printed as one document.
void conclude(const Context& context, const gate::BenchReport& report) {
  if (context.console.format() == Format::kJson) {
    context.console.out(report.document.dump(2) + "\n");
    return;
  }
  std::string text = fmt::format("{:.1f} s; figures in {}", report.seconds, report.path.string());
  if (!report.plot.empty()) text += fmt::format(", plot in {}", report.plot.string());
  context.console.out(text + "\n");
}

ExitCode run_bench(const Context& context, const BenchOptions& options) {
  const auto locations = pipeline::find_locations(context.root);
  if (!locations) return fail(context, locations.error());
  const auto arch = kernel_arch(options.arch);
  if (!arch) return fail(context, arch.error());
  if (!gate::is_cuda(*arch) && options.of_gpus_only())
    return fail(context, diag::make(diag::rule::cli_usage,
                                    "--section, --heads, --replays and --quick are of GPU architectures, not of cpu",
                                    "name one with --arch"));
  if (const auto device = gate::check_device(*arch); !device) return fail(context, device.error());
  const auto made = find_or_build(context, *arch, *locations);
  if (!made) return fail(context, made.error());

  gate::BenchRequest request = options.request;
  request.program = locations->programs / "flashmla-bench";
  request.folder = options.out.empty() ? locations->cache / "bench" : options.out;
  if (const auto done = base::make_directories(request.folder); !done)
    return fail(context, diag::make(diag::rule::file_unwritable, done.error().text()));
  if (context.console.format() != Format::kJson) {
    context.console.out(heading(*made));
    request.table = STDOUT_FILENO;
  }
  const auto report = gate::run_bench(*made, request, context.stop);
  if (!report) return fail(context, report.error());
  conclude(context, *report);
  if (report->complete) return ExitCode::kGood;
  return fail(context, diag::make(diag::rule::kernels_bench_broken, report->problem,
                                  fmt::format("the others are in {}", report->path.string())));
}

}  // namespace

void add_kernels_bench(CLI::App& kernels_command, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = kernels_command.add_subcommand(
      "bench",
      "Build, then time: on a GPU beside a kernel that only reads the same bytes and beside upstream's recorded times; "
      "on the CPU beside the plain C++ reference. The kernels are timed as they are: gate them first");
  command->add_option("--arch", options->arch, "cpu, sm_90a (H200), sm_100a (B200), sm_103a (B300)")->type_name("ARCH");
  command
      ->add_option("--section", options->request.sections,
                   "A (V4 128+512, 128+1024), B (V3.2 2048), C (dense), F (V4 window, small extra sets), N (V4.1), "
                   "transition (native against padded heads by query rows)")
      ->type_name("SECTION,...")
      ->default_str("A,B,F,C")
      ->delimiter(',')
      ->check(CLI::IsMember({"A", "B", "C", "F", "N", "transition"}).description(""));
  command->add_option("--shape", options->request.shape, "One shape by its name, or all whose names hold this text")
      ->type_name("TEXT");
  command->add_option("--heads", options->request.heads, "Query heads in place of the section's own")
      ->type_name("N,...")
      ->default_str("")
      ->delimiter(',')
      ->check(CLI::Range(1, 128).description(""));
  command->add_option("--replays", options->request.replays, "Timed replays of each graph")
      ->type_name("N")
      ->default_str("7")
      ->check(CLI::Range(1, 1000).description(""));
  command->add_flag("--quick", options->request.quick, "A few shapes of each section");
  command->add_option("--out", options->out, "Folder for bench.json, bench.log and transition.svg")->type_name("DIR");
  command->callback(
      [options, &action] { action = [options](Context& context) { return run_bench(context, *options); }; });
}

}  // namespace sweep::cli
