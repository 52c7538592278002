#include "orchestrator/pipeline/hash_progress.h"

#include <fmt/format.h>

#include <string>

#include "orchestrator/base/clock.h"

namespace sweep::pipeline {

std::function<void(const weights::HashProgress&)> show_hashing(Progress& progress) {
  return [&progress, begin_ns = base::monotonic_ns()](const weights::HashProgress& now) {
    constexpr double kNanosecond = 1e-9;
    const double seconds = static_cast<double>(base::monotonic_ns() - begin_ns) * kNanosecond;
    const double gigabytes = static_cast<double>(now.bytes - now.known_bytes) * 1e-9;
    std::string unit = "MiB";
    if (seconds > 0 && gigabytes > 0) unit += fmt::format(", {:.2f} GB/s", gigabytes / seconds);
    progress.advance(Stage::kWeights, static_cast<int64_t>(now.bytes >> 20),
                     static_cast<int64_t>(now.total_bytes >> 20), unit);
  };
}

}  // namespace sweep::pipeline
