#include "orchestrator/pipeline/device.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "orchestrator/diag/rules/run.h"
#include "orchestrator/gate/build_toolchain.h"

namespace sweep::pipeline {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kBundled = "embedded";  // the framework whose device is ours to choose
constexpr std::string_view kCudaEngine = "libsweepctl-embedded-cuda.so";

struct GpuName {
  std::string_view part;
  gate::Arch arch;
};
// The first that the name contains.
constexpr std::array<GpuName, 7> kGpuNames{{
    {"B300", gate::Arch::kSm103a},
    {"B200", gate::Arch::kSm100a},
    {"B100", gate::Arch::kSm100a},
    {"H200", gate::Arch::kSm90a},
    {"H100", gate::Arch::kSm90a},
    {"H800", gate::Arch::kSm90a},
    {"H20", gate::Arch::kSm90a},
}};

base::Unexpected<diag::Diagnostic> refuse(const plan::Job& job, std::string problem, std::string help = {}) {
  return diag::fail(diag::make_at(rule::run_device, job.where, std::move(problem), std::move(help)));
}

// Why an entry for any host cannot use a GPU here; empty if it can.
std::string gpu_obstacle(const host::Host& here, const Locations& locations, const std::stop_token& stop) {
  if (here.gpus.empty()) return "this host has no NVIDIA GPU";
  const auto arch = arch_of_gpu(here.gpus.front().name);
  if (!arch) return fmt::format("there are no kernels for \"{}\"", here.gpus.front().name);
  std::error_code error;
  if (!std::filesystem::exists(locations.programs / kCudaEngine, error))
    return fmt::format("this build has no CUDA engine ({})", kCudaEngine);
  if (auto nvcc = gate::find_nvcc(*arch, gate::nvcc_places(), stop); !nvcc) return nvcc.error().message;
  return {};
}

plan::Job with_gpus(plan::Job job, int64_t gpus) {
  job.gpus = gpus;
  job.id = plan::job_id(job);
  return job;
}

}  // namespace

std::optional<Device> parse_device(std::string_view text) {
  if (text == "auto") return Device::kAuto;
  if (text == "cpu") return Device::kCpu;
  if (text == "cuda") return Device::kCuda;
  return std::nullopt;
}

std::optional<gate::Arch> arch_of_gpu(std::string_view name) {
  for (const GpuName& known : kGpuNames)
    if (name.find(known.part) != std::string_view::npos) return known.arch;
  return std::nullopt;
}

diag::Result<plan::Job> on_device(plan::Job job, Device device, const host::Host& here, const Locations& locations,
                                  const std::stop_token& stop) {
  if (job.framework != kBundled) {
    if (device == Device::kAuto) return job;
    return refuse(job,
                  fmt::format("--device is for the embedded engine, \"{}\" is served by {}", job.entry, job.framework));
  }
  if (device == Device::kCpu) {
    if (job.tp > 1)
      return refuse(job, fmt::format("\"{}\" divides its model among {} GPUs, a CPU cannot", job.entry, job.tp));
    return job.gpus == 0 ? job : with_gpus(std::move(job), 0);
  }
  if (job.gpus > 0) return job;
  const std::string obstacle = gpu_obstacle(here, locations, stop);
  if (obstacle.empty()) return with_gpus(std::move(job), job.tp);
  if (device == Device::kAuto) return job;
  return refuse(job, fmt::format("\"{}\" cannot run on a GPU: {}", job.entry, obstacle),
                "ask for --device cpu, or run it on a host with a GPU, nvcc and cuBLAS");
}

gate::Arch kernel_arch(const plan::Job& job, const host::Host& here) {
  if (job.gpus == 0) return gate::Arch::kCpu;
  if (job.runner.find("b200") != std::string::npos) return gate::Arch::kSm100a;
  if (job.runner.find("b300") != std::string::npos) return gate::Arch::kSm103a;
  if (job.runner.find("h200") != std::string::npos || here.gpus.empty()) return gate::Arch::kSm90a;
  return arch_of_gpu(here.gpus.front().name).value_or(gate::Arch::kSm90a);
}

}  // namespace sweep::pipeline
