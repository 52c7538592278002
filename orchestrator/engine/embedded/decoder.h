// The target model: runs tokens of several sequences through all layers, attention through the kernel library.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/kernel_library.h"
#include "orchestrator/engine/embedded/kv_cache.h"
#include "orchestrator/engine/embedded/layer_math.h"
#include "orchestrator/engine/embedded/weights.h"
#include "orchestrator/engine/embedded/worker_pool.h"

namespace sweep::engine::embedded {

// What the decoder keeps of a sequence between calls.
struct Sequence {
  std::vector<int32_t> blocks;  // of the KV cache, in order of position
  // Per layer: the compressor's inputs of the newest tokens, place = position modulo the ring's rows. A group of tokens
  // is compressed again whenever one of its tokens is run again, so only committed tokens shape what stays.
  std::vector<std::vector<float>> rings;
};

// Consecutive tokens of one sequence, the first at position `start`. Everything before `start` must have been run.
struct Segment {
  Sequence* sequence = nullptr;
  int64_t start = 0;
  std::span<const int32_t> tokens;
};

class Decoder {
 public:
  // Holds references; they must outlive the decoder. Positions run below `positions`.
  Decoder(const Model& model, KernelLibrary& kernels, WorkerPool& workers, KvCache& cache, int64_t positions);

  Sequence make_sequence() const;

  // Runs all tokens; their records are in the cache afterwards. Rows of a segment are results for its tokens; they
  // depend on the tokens of their own sequence only. `query_tokens` is the kernel's s_q, 1 to 16.
  diag::Result<diag::Done> forward(std::span<const Segment> segments, int32_t query_tokens);

  // The row of token `offset` of segment `segment` of the last forward().
  int64_t row_of(size_t segment, int64_t offset) const { return segment_rows_[segment] + offset; }

  // What the drafter reads of a row: the outputs of its target layers, one after another.
  std::span<const float> features(int64_t row) const;
  int64_t feature_size() const;

  // Next-token logits for these rows of the last forward(): [rows, logits_stride()].
  void logits(std::span<const int64_t> rows, std::vector<float>& logits);
  int64_t logits_stride() const { return model_.lm_head.padded_outputs; }

 private:
  struct Row {
    Sequence* sequence = nullptr;  // null: fills up a group of query tokens
    int64_t position = 0;
  };

  void lay_out(std::span<const Segment> segments);
  void select_window(int64_t row);
  void project(int64_t layer, int64_t first_row, int64_t rows);
  void project_queries(int64_t layer, int64_t first_row, int64_t rows, const float* normed);
  void compress(int64_t layer, std::span<const Segment> segments);
  void compress_group(int64_t layer, const Segment& segment, int64_t first_row, int64_t group);
  void remember_inputs(int64_t layer, std::span<const Segment> segments);
  void select_compressed(int64_t layer, int64_t row);
  diag::Result<diag::Done> attend(int64_t layer);
  void finish_attention(int64_t layer, int64_t first_row, int64_t rows);
  void run_mlp(int64_t layer, int64_t first_row, int64_t rows);
  template <class Function>
  void for_row_blocks(Function function);
  int64_t ring_rows(int64_t layer) const;
  int64_t ring_columns() const { return config_.head_dim + config_.index_head_dim + 1; }

  const Model& model_;
  const ModelConfig& config_;
  KernelLibrary& kernels_;
  WorkerPool& workers_;
  KvCache& cache_;
  Rope rope_;
  float softmax_scale_;

  // Of the forward() under way; [row, ...].
  int32_t query_tokens_ = 1;
  std::vector<Row> rows_;
  std::vector<int64_t> segment_rows_;
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

}  // namespace sweep::engine::embedded
