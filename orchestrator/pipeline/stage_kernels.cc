#include <fmt/format.h>

#include "orchestrator/gate/arch_device.h"
#include "orchestrator/gate/gate.h"
#include "orchestrator/host/host.h"
#include "orchestrator/pipeline/device.h"
#include "orchestrator/pipeline/stages.h"

namespace sweep::pipeline {

namespace {

diag::Result<gate::KernelBuild> build(const Line& line) {
  return as_stage<gate::KernelBuild>(
      line.progress, Stage::kBuildKernels, "looking for a build of these sources",
      [&]() -> diag::Result<gate::KernelBuild> {
        const gate::Arch arch = kernel_arch(line.job, host::inspect_host());
        if (auto device = gate::check_device(arch); !device) return diag::fail(std::move(device).error());
        auto built = gate::build_kernels(
            {.arch = arch, .sources = line.locations.root / "kernels", .cache = line.locations.cache},
            [&](std::string_view text) { line.progress.begin(Stage::kBuildKernels, text); }, line.stop,
            line.diagnostics);
        if (built)
          line.progress.end(
              Stage::kBuildKernels,
              fmt::format("{}-{} {}, library SHA-256 {}...", gate::arch_info(built->arch).name, built->content_id,
                          built->found ? "found in the cache" : "compiled", built->library_sha256.substr(0, 16)));
        return built;
      });
}

diag::Result<gate::GateReport> pass_gate(const Line& line, const gate::KernelBuild& built) {
  return as_stage<gate::GateReport>(
      line.progress, Stage::kGateKernels, "comparing with the FP64 oracle", [&]() -> diag::Result<gate::GateReport> {
        auto report = gate::run_gate(built,
                                     {.program = line.locations.programs / "flashmla-gate",
                                      .seed = line.options.seed,
                                      .folder = line.folder.path()},
                                     line.stop);
        if (!report) return report;
        if (!report->passed) return diag::fail(gate::gate_failure(built, *report));
        line.progress.end(Stage::kGateKernels,
                          fmt::format("{} cells passed: output and LSE against FP64, bits against padded "
                                      "heads, run against run",
                                      report->cells));
        return report;
      });
}

}  // namespace

diag::Result<KernelsOutcome> prepare_kernels(const Line& line) {
  auto built = build(line);
  if (!built) return diag::fail(std::move(built).error());
  auto known = line.folder.read(stage_file::kKernels);
  if (!known) return diag::fail(std::move(known).error());
  if (*known && (**known).value("library_sha256", "") == built->library_sha256) {
    line.progress.reuse(Stage::kGateKernels, "this build has passed its gate");
    return KernelsOutcome{std::move(*built), std::move(**known)};
  }
  auto report = pass_gate(line, *built);
  if (!report) return diag::fail(std::move(report).error());
  nlohmann::json document = gate::to_json(*built);
  document.erase("schema_version");  // the stage file has its own
  document["gate"] = {
      {"verdict", "pass"}, {"cells", report->cells}, {"seed", line.options.seed}, {"report", "gate-report.json"}};
  // Engines with kernels of their own are measured beside a gated build all the same; the result must not read as if it
  // had served them.
  document["used_by_engine"] = line.framework.uses_bundled_kernels;
  if (auto written = line.folder.write(stage_file::kKernels, document); !written)
    return diag::fail(std::move(written).error());
  return KernelsOutcome{std::move(*built), std::move(document)};
}

}  // namespace sweep::pipeline
