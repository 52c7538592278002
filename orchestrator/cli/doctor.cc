#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/cli/command.h"
#include "orchestrator/engine/adapter.h"
#include "orchestrator/gate/arch.h"
#include "orchestrator/gate/build_toolchain.h"
#include "orchestrator/host/host.h"
#include "orchestrator/pipeline/entries.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/pipeline/provenance.h"

namespace sweep::cli {

namespace {

struct Tool {
  std::string_view name;
  std::string_view needed_for;
};
constexpr std::array<Tool, 10> kTools{{
    {"c++", "building the kernels at run time"},
    {"cmake", "building the kernels at run time"},
    {"git", "the state of the checkout in results, changelog checks"},
    {"nvcc", "GPU kernels"},
    {"nvidia-smi", "looking at GPUs by hand"},
    {"python3", "starting SGLang, vLLM or TensorRT-LLM on this host"},
    {"docker", "--launcher container"},
    {"podman", "--launcher container"},
    {"enroot", "--launcher container"},
    {"srun", "--launcher slurm"},
}};

// Why an entry cannot be measured here; empty if it can.
std::string obstacle(const plan::Job& job, const host::Host& here) {
  if (job.status != plan::Status::kReady)
    return fmt::format("{}: planned, never dispatched", plan::status_name(job.status));
  if (engine::find_framework(job.framework) == nullptr)
    return fmt::format("no adapter for framework {}", job.framework);
  if (static_cast<int64_t>(here.gpus.size()) < job.gpus)
    return fmt::format("needs {} GPUs ({}), this host has {}", job.gpus, job.runner, here.gpus.size());
  return {};
}

// What compiles the kernels of an architecture here; empty if nothing does.
std::string device_compiler(const gate::ArchInfo& arch, const Context& context) {
  if (!gate::is_cuda(arch.arch)) return "the C++ compiler";
  const auto nvcc = gate::find_nvcc(arch.arch, gate::nvcc_places(), context.stop);
  return nvcc ? nvcc->program.string() : "";
}

ExitCode doctor(const Context& context) {
  const host::Host here = host::inspect_host();
  const auto locations = pipeline::find_locations(context.root);
  std::vector<plan::Job> jobs;
  diag::Diagnostics diagnostics;
  if (locations) jobs = pipeline::load_jobs(locations->root, {}, diagnostics).jobs;

  if (context.console.format() == Format::kJson) {
    nlohmann::json tools = nlohmann::json::object();
    for (const Tool& tool : kTools) {
      const auto path = host::find_program(tool.name);
      tools[std::string(tool.name)] = path ? nlohmann::json(path->string()) : nlohmann::json(nullptr);
    }
    nlohmann::json kernels = nlohmann::json::array();
    for (const gate::ArchInfo& arch : gate::archs())
      kernels.push_back({{"arch", arch.name},
                         {"runs_on", arch.runs_on},
                         {"hardware", arch.hardware},
                         {"can_build", !device_compiler(arch, context).empty()}});
    nlohmann::json entries = nlohmann::json::array();
    for (const plan::Job& job : jobs) {
      const std::string why_not = obstacle(job, here);
      entries.push_back({{"entry", job.entry}, {"can_run", why_not.empty()}, {"reason", why_not}});
    }
    context.console.out(nlohmann::json{{"version", SWEEPCTL_VERSION},
                                       {"host", pipeline::describe_host()},
                                       {"tools", std::move(tools)},
                                       {"kernels", std::move(kernels)},
                                       {"entries", std::move(entries)}}
                            .dump(2) +
                        "\n");
    return ExitCode::kGood;
  }
  constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
  std::string out = fmt::format("sweepctl {} on {} ({})\n", SWEEPCTL_VERSION, here.system, here.kernel);
  out += fmt::format("  processor   {}, {} cores, {:.1f} GiB\n", here.cpu, here.cores,
                     static_cast<double>(here.memory_bytes) / kGibibyte);
  if (here.gpus.empty())
    out += "  GPUs        none: the embedded engine runs on the CPU, GPU entries can be validated and planned\n";
  for (const host::Gpu& gpu : here.gpus) out += fmt::format("  GPU {}       {}\n", gpu.index, gpu.name);
  if (locations) {
    out += fmt::format("  checkout    {}\n", locations->root.string());
    out += fmt::format("  cache       {}\n", locations->cache.string());
  } else {
    out += "  checkout    none found here\n";
  }
  out += "\nPrograms\n";
  for (const Tool& tool : kTools) {
    const auto path = host::find_program(tool.name);
    out += fmt::format("  {} {:<11} {:<28} {}\n", path ? "+" : "-", tool.name, path ? path->string() : "not found",
                       tool.needed_for);
  }
  out += "\nKernels in this version\n";
  for (const gate::ArchInfo& arch : gate::archs()) {
    const std::string compiler = device_compiler(arch, context);
    out += fmt::format(
        "  {} {:<11} runs on {}; {}; {}\n", compiler.empty() ? "-" : "+", arch.name, arch.runs_on, arch.hardware,
        compiler.empty() ? fmt::format("needs nvcc {}.{} or newer", arch.oldest_nvcc.major, arch.oldest_nvcc.minor)
                         : "compiled by " + compiler);
  }
  if (!jobs.empty()) out += "\nEntries\n";
  for (const plan::Job& job : jobs) {
    const std::string why_not = obstacle(job, here);
    out += fmt::format("  {} {} (concurrency {}){}{}\n", why_not.empty() ? "+" : "-", job.entry, job.concurrency,
                       why_not.empty() ? "" : ": ", why_not);
  }
  context.console.out(out);
  return ExitCode::kGood;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("doctor", "What this host has, and what it lacks for which entries");
  command->callback([&action] { action = doctor; });
}

}  // namespace sweep::cli
