// One GPU's share of the model: weights, cache, buffers, and the passes over them. All functions are called by the
// rank's own thread and throw std::runtime_error.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/engine/embedded/cuda/attention.h"
#include "orchestrator/engine/embedded/cuda/collective.h"
#include "orchestrator/engine/embedded/cuda/device_model.h"
#include "orchestrator/engine/embedded/cuda/gemm.h"
#include "orchestrator/engine/embedded/cuda/graph.h"
#include "orchestrator/engine/embedded/cuda/kernels.h"
#include "orchestrator/engine/embedded/cuda/rank_group.h"
#include "orchestrator/engine/embedded/cuda/rank_weights.h"
#include "orchestrator/engine/embedded/cuda/runtime.h"
#include "orchestrator/engine/embedded/cuda/shard.h"
#include "orchestrator/engine/embedded/cuda/staging.h"

namespace sweep::engine::embedded::cuda {

class Rank {
 public:
  // The current device becomes the rank's. Waits for no other rank.
  Rank(const DeviceModelOptions& options, int64_t rank);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // Of several ranks, before the first pass: all of them at the same time.
  void join(std::unique_ptr<Collective> collective, std::shared_ptr<const RankGroup> group);
  // Ends what waits for other ranks; nothing may be run afterwards. The first in the rank's own thread, the second,
  // which may not return, in any other.
  void abandon() noexcept;
  void interrupt() noexcept;

  // Runs the rows and waits for them.
  void forward(const ForwardInput& input);

  // The first rank only.
  void logits(const std::vector<int64_t>& rows, std::vector<float>& logits);
  void remember(int64_t row, int64_t slot);
  void draft(const DraftInput& input, std::vector<int32_t>& tokens, std::vector<float>& logits);
  const StepTimes& step_times() const { return times_; }

  // No pass takes so long unless something hangs.
  static constexpr std::chrono::seconds kPassLimit{60};

  static int64_t blocks_per_sequence(const DeviceModelOptions& options);
  const std::string& device_name() const { return device_name_; }

 private:
  struct LayerCache {
    DeviceArray<uint8_t> window;
    DeviceArray<uint8_t> compressed;
    DeviceArray<Bf16> index_keys;
    DeviceArray<float> ring;
  };
  // What decides the launches of a pass.
  struct Shape {
    int32_t most_tokens = 0;    // of a segment
    int32_t most_position = 0;  // of any row
    bool with_logits = false;   // of all rows
    bool profiled = false;      // events between the parts of each layer
  };

  void allocate(const DeviceModelOptions& options);
  void upload_rope(int64_t positions);
  RowTable table_of(const ForwardInput& input) const;

  // What the layers before left in `partial_` to be added to the hidden state.
  enum class Addend { kNone, kAttention, kMlp };

  void run_graph(const ForwardInput& input, const RowTable& table);
  void enqueue(const RowTable& table, const Shape& shape);
  void enqueue_layer(const RowTable& table, const Shape& shape, size_t layer);
  void enqueue_norm(const RowTable& table, const float* weight, Addend addend, size_t layer);
  void enqueue_projections(const RowTable& table, const RankLayer& weights, LayerCache& cache);
  void enqueue_selection(const RowTable& table, const Shape& shape, const RankLayer& weights, LayerCache& cache);
  flashmla_sparse_decode_params attention_call(const RowTable& table, size_t layer) const;
  void enqueue_output(const RowTable& table, const RankLayer& weights);
  void enqueue_mlp(const RowTable& table, const RankLayer& weights);
  struct MlpPass {
    const RankMlp* weights = nullptr;
    int64_t rows = 0;
    const Bf16* from = nullptr;
    float* gate_up = nullptr;
    Bf16* activated = nullptr;
    float* to = nullptr;
  };
  void enqueue_mlp_product(const MlpPass& pass);
  void finish_hidden(const RowTable& table);
  // Of these rows of the hidden state; null: the first ones.
  void enqueue_logits(const int32_t* gather, int64_t rows);
  void record(const Event& event);
  void finish();

  // The sequences of a draft, on the device.
  struct DraftTable {
    int32_t sequences = 0;
    int32_t count = 0;
    const double* uniforms = nullptr;
    const int32_t* slots = nullptr;
    const int32_t* last_tokens = nullptr;
    const int32_t* masked = nullptr;
    const float* temperatures = nullptr;
  };
  void enqueue_draft(const DraftTable& table);
  void sum_over_ranks(int64_t rows);
  int64_t most_visible(int64_t ratio, int64_t positions) const;
  Records records(const DeviceArray<uint8_t>& pool, int64_t ratio) const;
  int64_t feature_size() const;

  ModelConfig config_;
  const KvLayout& layout_;
  Shard shard_;
  bool is_first_;
  int64_t num_blocks_;
  int64_t positions_;
  int64_t most_rows_;
  int64_t blocks_per_sequence_;
  std::string device_name_;
  std::unique_ptr<Collective> collective_;  // null for a single rank
  std::shared_ptr<const RankGroup> group_;  // likewise

  Stream stream_;
  Gemm gemm_;
  Attention attention_;
  RankWeights weights_;
  std::vector<LayerCache> caches_;
  DeviceArray<float> rope_cosines_, rope_sines_;
  RopeTable rope_;

  Staging staging_;        // input of a pass
  Staging draft_staging_;  // input of a draft
  DeviceArray<float> hidden_, partial_, projections_, raw_queries_, gate_up_, features_, scores_;
  DeviceArray<Bf16> normed_, query_latents_, queries_, index_queries_, outputs_, group_outputs_, activated_;
  DeviceArray<float> lse_;
  DeviceArray<int32_t> window_slots_, window_lengths_, group_slots_, group_lengths_;
  DeviceArray<float> kept_features_, logits_;
  DeviceArray<int32_t> gather_;
  PinnedArray<float> host_logits_;
  PinnedArray<int32_t> host_gather_;
  int64_t ready_logits_ = 0;  // rows of host_logits_ that are those of the last pass

  struct DraftBuffers {
    DeviceArray<float> context, hidden, gate_up, down, logits;
    DeviceArray<Bf16> features, normed, activated;
    DeviceArray<int32_t> tokens;
    DeviceArray<uint64_t> best;
    DeviceArray<uint32_t> arrived;
    PinnedArray<int32_t> host_tokens;
  } draft_;

  std::map<std::array<int32_t, 3>, Graph> graphs_;  // (parts, query tokens, profiled)
  std::map<std::array<int32_t, 2>, Graph> draft_graphs_;
  Event pass_begin_, pass_end_;
  std::vector<Event> part_events_;  // the begin of the first layer, the ends of each layer's parts, and one more
  int64_t passes_until_profile_;
  StepTimes times_;
};

}  // namespace sweep::engine::embedded::cuda
