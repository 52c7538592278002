// Where things are: the checkout, our own programs, the cache.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/telemetry/nvml.h"

namespace sweep::pipeline {

struct Locations {
  std::filesystem::path root;                  // the checkout: holds matrix/, recipes/, kernels/
  std::filesystem::path programs;              // folder of sweepctl, sweepctl-embedded, flashmla-gate
  std::filesystem::path cache;                 // kernel builds, generated models, what was verified
  std::string nvml = telemetry::kNvmlLibrary;  // of the GPU driver, as the dynamic loader takes it
};

// $SWEEPCTL_CACHE, else $XDG_CACHE_HOME/sweepctl, else ~/.cache/sweepctl; nothing where none of them is set.
std::optional<std::filesystem::path> user_cache();

// The checkout is `root_option`, else the nearest folder from the current one upwards that holds matrix/ and recipes/,
// else $SWEEPCTL_ROOT (set by the launcher). The cache is user_cache(), else <root>/.cache.
diag::Result<Locations> find_locations(const std::optional<std::filesystem::path>& root_option);

}  // namespace sweep::pipeline
