// Device time of the steps of a DSpark loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sweep::engine::embedded {

// The parts of a layer, in the order in which they run.
enum class StepPart : uint8_t {
  kProjections,  // norm, query and key latents, records, queries
  kSelection,    // compressor, indexer, choice of latents
  kAttention,    // the kernel library's call
  kOutput,       // output projections, sum over ranks, norm
  kMlp,
};
inline constexpr size_t kStepParts = 5;
inline constexpr std::array<std::string_view, kStepParts> kStepPartNames = {"projections", "selection", "attention",
                                                                            "output", "mlp"};

// Sums in seconds. A verification step is one forward pass of at most 16 query tokens per sequence with its logits.
struct StepTimes {
  int64_t verify_steps = 0;
  double verify_s = 0;
  int64_t draft_steps = 0;
  double draft_s = 0;
  // Of every so many-th verification step, whose parts are timed one by one (that step is not among `verify_steps`),
  // less what the timing itself takes.
  int64_t profiled_steps = 0;
  double profiled_s = 0;
  std::array<double, kStepParts> part_s = {};  // in them, over all layers; what is missing is the rest of the step

  double attention_s() const { return part_s[static_cast<size_t>(StepPart::kAttention)]; }
  // Share of the kernel library's calls in a verification step; 0 if none was profiled.
  double attention_share() const { return profiled_s > 0 ? attention_s() / profiled_s : 0; }
};

}  // namespace sweep::engine::embedded
