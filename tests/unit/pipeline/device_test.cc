// On what the embedded engine computes.
#include "orchestrator/pipeline/device.h"

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/run.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::pipeline;

namespace {

plan::Job embedded_job(int64_t gpus, int64_t tp) {
  plan::Job job;
  job.entry = "embedded-x";
  job.framework = "embedded";
  job.runner = gpus > 0 ? "h200" : "local";
  job.gpus = gpus;
  job.tp = tp;
  job.id = plan::job_id(job);
  return job;
}

host::Host host_with(std::vector<host::Gpu> gpus) {
  host::Host host;
  host.gpus = std::move(gpus);
  return host;
}

diag::Result<plan::Job> placed(plan::Job job, Device device, const host::Host& here) {
  return on_device(std::move(job), device, here, {}, {});
}

}  // namespace

TEST_CASE("device: auto takes the GPUs that an entry names, and the CPU where there is none") {
  const host::Host none = host_with({});
  CHECK(placed(embedded_job(2, 2), Device::kAuto, none)->gpus == 2);
  CHECK(placed(embedded_job(0, 1), Device::kAuto, none)->gpus == 0);
  // A GPU alone does not do: the CUDA engine must be there too.
  CHECK(placed(embedded_job(0, 1), Device::kAuto, host_with({{0, "NVIDIA H200"}}))->gpus == 0);
}

TEST_CASE("device: the job of another device has another id") {
  const plan::Job job = embedded_job(1, 1);
  const auto on_cpu = placed(job, Device::kCpu, host_with({}));
  REQUIRE(on_cpu.has_value());
  CHECK(on_cpu->gpus == 0);
  CHECK(on_cpu->id != job.id);
  CHECK(on_cpu->id == plan::job_id(*on_cpu));
}

TEST_CASE("device: what cannot be is refused with the reason") {
  const auto refusal = [](plan::Job job, Device device, const host::Host& here) {
    const auto result = placed(std::move(job), device, here);
    REQUIRE(!result.has_value());
    CHECK(result.error().rule == diag::rule::run_device);
    return result.error().message;
  };
  CHECK(contains(refusal(embedded_job(0, 1), Device::kCuda, host_with({})), "no NVIDIA GPU"));
  CHECK(contains(refusal(embedded_job(0, 1), Device::kCuda, host_with({{0, "NVIDIA RTX 4090"}})), "no kernels for"));
  CHECK(contains(refusal(embedded_job(0, 1), Device::kCuda, host_with({{0, "NVIDIA H200"}})), "no CUDA engine"));
  CHECK(contains(refusal(embedded_job(2, 2), Device::kCpu, host_with({})), "among 2 GPUs"));
  plan::Job other = embedded_job(8, 8);
  other.framework = "sglang";
  CHECK(contains(refusal(other, Device::kCpu, host_with({})), "served by sglang"));
  CHECK(placed(other, Device::kAuto, host_with({})).has_value());
}

TEST_CASE("device: kernels are those of the runner, or of the GPU that is here") {
  const host::Host b300 = host_with({{0, "NVIDIA B300 SXM6 AC"}});
  CHECK(kernel_arch(embedded_job(0, 1), b300) == gate::Arch::kCpu);
  CHECK(kernel_arch(embedded_job(1, 1), b300) == gate::Arch::kSm90a);
  plan::Job anywhere = embedded_job(1, 1);
  anywhere.runner = "local";
  CHECK(kernel_arch(anywhere, b300) == gate::Arch::kSm103a);
  anywhere.runner = "b200-multinode";
  CHECK(kernel_arch(anywhere, b300) == gate::Arch::kSm100a);
  CHECK(arch_of_gpu("NVIDIA H200") == gate::Arch::kSm90a);
  CHECK(arch_of_gpu("NVIDIA GB200") == gate::Arch::kSm100a);
  CHECK(!arch_of_gpu("NVIDIA A100-SXM4-80GB").has_value());
}

TEST_CASE("device: names are those of the command line") {
  CHECK(parse_device("auto") == Device::kAuto);
  CHECK(parse_device("cpu") == Device::kCpu);
  CHECK(parse_device("cuda") == Device::kCuda);
  CHECK(!parse_device("gpu").has_value());
}
