// On what a job's bundled engine computes here: the choice `--device`, and the kernels that go with it.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/gate/arch.h"
#include "orchestrator/host/host.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/plan/job.h"

namespace sweep::pipeline {

// kAuto: GPUs where the entry names them; an entry for any host takes one where it can be used, else the CPU.
enum class Device : uint8_t { kAuto, kCpu, kCuda };
std::optional<Device> parse_device(std::string_view text);  // "auto", "cpu", "cuda"

// The architecture of a GPU by its name ("NVIDIA H200"); nothing if there are no kernels for it.
std::optional<gate::Arch> arch_of_gpu(std::string_view name);

// The job as it is run on `here`: with the number of GPUs that it uses, and the id that goes with it. Fails with
// run/device if the choice is not possible.
diag::Result<plan::Job> on_device(plan::Job job, Device device, const host::Host& here, const Locations& locations,
                                  const std::stop_token& stop);

// Whose kernels the job's engine loads. Entries for GPUs name theirs by runner, those for any host take what is here.
gate::Arch kernel_arch(const plan::Job& job, const host::Host& here);

}  // namespace sweep::pipeline
