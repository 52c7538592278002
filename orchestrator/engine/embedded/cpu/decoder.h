// The decoder on a CPU: all arithmetic in FP32 except the records of the cache and what the kernels do with them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/cpu/draft_head.h"
#include "orchestrator/engine/embedded/cpu/kv_cache.h"
#include "orchestrator/engine/embedded/cpu/layer_math.h"
#include "orchestrator/engine/embedded/cpu/weights.h"
#include "orchestrator/engine/embedded/cpu/worker_pool.h"
#include "orchestrator/engine/embedded/decoder.h"
#include "orchestrator/engine/embedded/kernel_library.h"
#include "orchestrator/engine/embedded/row_layout.h"

namespace sweep::engine::embedded::cpu {

class CpuDecoder final : public Decoder {
 public:
  // `checkpoint` need not outlive the decoder, `kernels` must. Positions run below `positions`.
  struct Options {
    int threads = 1;
    int64_t num_blocks = 1;  // of the KV cache
    int64_t positions = 1;
  };
  CpuDecoder(const Checkpoint& checkpoint, KernelLibrary& kernels, const Options& options);

  std::unique_ptr<SequenceMemory> make_memory() override;
  diag::Result<diag::Done> forward(std::span<const Segment> segments, int32_t query_tokens, Pass pass) override;
  int64_t row_of(size_t segment, int64_t offset) const override { return layout_.row_of(segment, offset); }
  diag::Result<diag::Done> logits(std::span<const int64_t> rows, std::vector<float>& logits) override;
  int64_t logits_stride() const override { return model_.lm_head.padded_outputs; }
  diag::Result<diag::Done> remember(Sequence& sequence, int64_t row) override;
  diag::Result<Drafts> draft(std::span<const DraftRequest> requests, int64_t count) override;
  std::string device_name() const override { return "cpu"; }

 private:
  struct Memory;
  static Memory& memory_of(const Segment& segment);
  static std::vector<float>& ring_of(const Segment& segment, int64_t layer);
  // The sequence of a row; null for one that fills up.
  const Sequence* sequence_of(const RowLayout::Row& row) const;
  int64_t visible_groups(const RowLayout::Row& row, int64_t ratio) const;

  void lay_out(std::span<const Segment> segments);
  void select_window(int64_t row);
  void project(int64_t layer, int64_t first_row, int64_t rows);
  void project_queries(int64_t layer, int64_t first_row, int64_t rows, const float* normed);
  void compress(int64_t layer);
  void compress_group(int64_t layer, const Segment& segment, int64_t first_row, int64_t group);
  void remember_inputs(int64_t layer);
  void select_compressed(int64_t layer, int64_t row);
  diag::Result<diag::Done> attend(int64_t layer);
  void finish_attention(int64_t layer, int64_t first_row, int64_t rows);
  void run_mlp(int64_t layer, int64_t first_row, int64_t rows);
  template <class Function>
  void for_row_blocks(Function function);
  int64_t ring_rows(int64_t layer) const;
  int64_t ring_columns() const { return config_.head_dim + config_.index_head_dim + 1; }

  int64_t feature_size() const;

  const Model model_;
  const ModelConfig& config_;
  KernelLibrary& kernels_;
  WorkerPool workers_;
  KvCache cache_;
  DraftHead drafter_;
  Rope rope_;
  float softmax_scale_;

  // Of the forward() under way; [row, ...].
  int32_t query_tokens_ = 1;
  std::span<const Segment> segments_;
  RowLayout layout_;
  std::vector<float> hidden_;
  std::vector<float> features_;
  std::vector<float> query_latents_;
  std::vector<float> compressor_inputs_;
  std::vector<uint16_t> queries_;
  std::vector<uint16_t> outputs_;
  std::vector<float> lse_;
  std::vector<int32_t> window_slots_;
  std::vector<int32_t> compressed_slots_;
};

}  // namespace sweep::engine::embedded::cpu
