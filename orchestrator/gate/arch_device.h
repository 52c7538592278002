// Whether this host can run the kernels of an architecture at all. Compiling them needs no GPU, gating them does.
#pragma once

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/gate/arch.h"

namespace sweep::gate {

// Fails with kernels/no-gpu on a host without any NVIDIA GPU. Which one it is, the gate itself finds out. Asked before
// the minutes that compiling takes.
diag::Result<diag::Done> check_device(Arch arch);

}  // namespace sweep::gate
