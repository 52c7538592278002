// The target model and its drafter on some device: the one seam between the engine and what computes. Implementations:
// cpu/ (any machine) and cuda/ (GPUs, through a library of its own).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/step_times.h"

namespace sweep::engine::embedded {

// What a decoder keeps of a sequence between calls, besides its blocks of the KV cache.
class SequenceMemory {
 public:
  SequenceMemory() = default;
  SequenceMemory(const SequenceMemory&) = delete;
  SequenceMemory& operator=(const SequenceMemory&) = delete;
  virtual ~SequenceMemory() = default;
};

struct Sequence {
  std::vector<int32_t> blocks;             // of the KV cache, in order of position
  std::unique_ptr<SequenceMemory> memory;  // made by the decoder that runs the sequence
};

// Consecutive tokens of one sequence, the first at position `start`. Everything before `start` must have been run.
struct Segment {
  Sequence* sequence = nullptr;
  int64_t start = 0;
  std::span<const int32_t> tokens;
};

// What to draft for one sequence, and how a draft is chosen from its logits.
struct DraftRequest {
  Sequence* sequence = nullptr;  // with remembered features
  int32_t last_token = 0;        // committed after the token whose features are remembered
  int64_t masked = 0;            // for so many drafts the end token is out of reach
  double temperature = 0;        // 0: the best token; else sampled
  std::vector<double> uniforms;  // temperature > 0: one number in [0, 1) per draft
};

struct Drafts {
  std::vector<int32_t> tokens;              // [request, count]
  std::vector<std::vector<double>> shares;  // [request * count]: what a draft was sampled from; empty for temperature 0
};

// What a forward pass is part of.
enum class Pass : uint8_t { kPrompt, kVerify };

class Decoder {
 public:
  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  virtual ~Decoder() = default;

  // Not more than the number of sequences that the decoder was made for may be alive.
  virtual std::unique_ptr<SequenceMemory> make_memory() = 0;

  // Runs all tokens; their records are in the cache afterwards. Rows of a segment are results for its tokens; they
  // depend on the tokens of their own sequence only. `query_tokens` is the kernel's s_q, 1 to 16.
  virtual diag::Result<diag::Done> forward(std::span<const Segment> segments, int32_t query_tokens, Pass pass) = 0;

  // The row of token `offset` of segment `segment` of the last forward().
  virtual int64_t row_of(size_t segment, int64_t offset) const = 0;

  // Next-token logits for these rows of the last forward(): [rows, logits_stride()].
  virtual diag::Result<diag::Done> logits(std::span<const int64_t> rows, std::vector<float>& logits) = 0;
  virtual int64_t logits_stride() const = 0;

  // Keeps what the drafter reads of this row of the last forward().
  virtual diag::Result<diag::Done> remember(Sequence& sequence, int64_t row) = 0;

  // Drafts `count` tokens for each sequence. A sequence's drafts do not depend on the others.
  virtual diag::Result<Drafts> draft(std::span<const DraftRequest> requests, int64_t count) = 0;

  // Device time so far; all zero where it is not measured.
  virtual StepTimes step_times() const { return {}; }

  // "cpu", or the GPUs by name.
  virtual std::string device_name() const = 0;
  // GPUs that share the model; 0 on a CPU.
  virtual int64_t tensor_parallel() const { return 0; }
};

}  // namespace sweep::engine::embedded
