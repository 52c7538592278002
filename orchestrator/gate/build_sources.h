// The sources of a kernel build as one digest.
#pragma once

#include <filesystem>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/gate/arch.h"

namespace sweep::gate {

// SHA-256 over the names and contents of the files in `sources` (the checkout's kernels/) that go into the libraries of
// `arch`: another backend, the gate, the oracle and prose do not change it. Fails with kernels/sources-missing.
diag::Result<std::string> source_digest(Arch arch, const std::filesystem::path& sources);

}  // namespace sweep::gate
