// What the sub-commands of `kernels` share.
#pragma once

#include <string>

#include "orchestrator/cli/command.h"
#include "orchestrator/gate/arch.h"
#include "orchestrator/gate/build.h"
#include "orchestrator/pipeline/locations.h"

namespace sweep::cli {

diag::Result<gate::Arch> kernel_arch(const std::string& name);

// Finds or makes the build, telling what it does.
diag::Result<gate::KernelBuild> find_or_build(const Context& context, gate::Arch arch,
                                              const pipeline::Locations& locations);

}  // namespace sweep::cli
