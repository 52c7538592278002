// The decoder on GPUs: BF16 products with FP32 sums, attention through the kernel library for CUDA, tensor parallel
// over all ranks. What needs CUDA is in a library of its own; see device_model.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orchestrator/engine/embedded/checkpoint.h"
#include "orchestrator/engine/embedded/cuda/device_model.h"
#include "orchestrator/engine/embedded/decoder.h"
#include "orchestrator/engine/embedded/kernel_library.h"
#include "orchestrator/engine/embedded/row_layout.h"

namespace sweep::engine::embedded::cuda {

class CudaDecoder final : public Decoder {
 public:
  struct Options {
    std::string library;  // empty: beside this program
    int64_t ranks = 1;    // GPUs
    int64_t num_blocks = 1;
    int64_t sequences = 1;
    int64_t positions = 1;
    int64_t rows = 16;  // most rows of a pass
  };
  // `checkpoint` need not outlive the decoder; `kernels`, a library for CUDA, must.
  static diag::Result<std::unique_ptr<CudaDecoder>> make(const Checkpoint& checkpoint, const KernelLibrary& kernels,
                                                         const Options& options);

  std::unique_ptr<SequenceMemory> make_memory() override;
  diag::Result<diag::Done> forward(std::span<const Segment> segments, int32_t query_tokens, Pass pass) override;
  int64_t row_of(size_t segment, int64_t offset) const override { return layout_.row_of(segment, offset); }
  diag::Result<diag::Done> logits(std::span<const int64_t> rows, std::vector<float>& logits) override;
  int64_t logits_stride() const override { return vocab_size_; }
  diag::Result<diag::Done> remember(Sequence& sequence, int64_t row) override;
  diag::Result<Drafts> draft(std::span<const DraftRequest> requests, int64_t count) override;
  StepTimes step_times() const override { return model_->step_times(); }
  std::string device_name() const override { return model_->device_names(); }
  int64_t tensor_parallel() const override { return ranks_; }

 private:
  class Memory;
  CudaDecoder(std::unique_ptr<DeviceModel> model, const ModelConfig& config, const Options& options);
  static int32_t slot_of(const Sequence& sequence);

  std::unique_ptr<DeviceModel> model_;
  int64_t vocab_size_;
  int64_t ranks_;
  RowLayout layout_;
  // Shared with the memories, which give their slots back and may be the last to go.
  std::shared_ptr<std::vector<int32_t>> free_slots_;
};

// A pass as the device model takes it. `blocks_per_sequence` is the width of a row of the block table.
ForwardInput make_input(std::span<const Segment> segments, std::span<const int32_t> slots, const RowLayout& layout,
                        int64_t blocks_per_sequence);

}  // namespace sweep::engine::embedded::cuda
