#include "orchestrator/engine/embedded/cuda/rank.h"

#include <algorithm>
#include <cmath>

namespace sweep::engine::embedded::cuda {

namespace {

constexpr int64_t kGraphRows = 256;       // passes of more rows are not worth a graph
constexpr int64_t kProfileInterval = 32;  // verification steps from one that is timed in parts to the next

// Makes the device current before anything is created on it.
int64_t on_device(int64_t rank) {
  check(cudaSetDevice(static_cast<int>(rank)), "cudaSetDevice");
  return rank;
}

std::string name_of_device(int64_t rank) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, static_cast<int>(rank)), "cudaGetDeviceProperties");
  return properties.name;
}

}  // namespace

Rank::Rank(const DeviceModelOptions& options, int64_t rank)
    : config_(*options.config),
      layout_(*find_kv_layout(config_.kv_layout)),
      shard_(shard_of(config_, on_device(rank), options.ranks)),
      is_first_(rank == 0),
      num_blocks_(options.num_blocks),
      positions_(options.positions),
      most_rows_(std::max(options.rows, options.sequences * FLASHMLA_MAX_QUERY_TOKENS)),
      blocks_per_sequence_(blocks_per_sequence(options)),
      device_name_(name_of_device(rank)),
      gemm_(stream_.get()),
      attention_(options.kernels, static_cast<int>(rank)),
      weights_(load_weights(config_, *options.tensors, shard_, is_first_)),
      passes_until_profile_(kProfileInterval / 2) {
  allocate(options);
  upload_rope(options.positions);
  // One more than there are ends of parts: between the last two nothing happens.
  for (size_t i = 0; i < weights_.layers.size() * kStepParts + 2; ++i) part_events_.emplace_back();
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void Rank::join(std::unique_ptr<Collective> collective, std::shared_ptr<const RankGroup> group) {
  collective_ = std::move(collective);
  group_ = std::move(group);
  // Connections are made by the first sums, here and not inside a capture or a measurement.
  for (const int64_t rows : {int64_t{1}, int64_t{FLASHMLA_MAX_QUERY_TOKENS}, most_rows_}) sum_over_ranks(rows);
  finish();
}

void Rank::abandon() noexcept {
  graphs_.clear();  // NCCL does not end before those that hold its sums
  interrupt();
}

void Rank::interrupt() noexcept {
  if (collective_) collective_->abort();
}

// A rank that waits for the sums of another one must notice when that one has failed.
void Rank::finish() {
  if (!collective_) return stream_.wait();
  const auto is_done = [&] {
    collective_->check();
    return stream_.is_done();
  };
  group_->wait(is_done, kPassLimit);
}

Rank::~Rank() = default;

int64_t Rank::blocks_per_sequence(const DeviceModelOptions& options) {
  return (options.positions + options.config->kv_block_size - 1) / options.config->kv_block_size;
}

int64_t Rank::feature_size() const {
  return static_cast<int64_t>(config_.dspark_target_layer_ids.size()) * config_.hidden_size;
}

int64_t Rank::most_visible(int64_t ratio, int64_t positions) const {
  return (positions + (config_.has_window() ? 0 : 1)) / ratio;
}

void Rank::upload_rope(int64_t positions) {
  const int64_t half = config_.qk_rope_head_dim / 2;
  std::vector<float> cosines(static_cast<size_t>(positions * half));
  std::vector<float> sines(cosines.size());
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(config_.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(2 * half));
    for (int64_t position = 0; position < positions; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      cosines[static_cast<size_t>(position * half + i)] = static_cast<float>(std::cos(angle));
      sines[static_cast<size_t>(position * half + i)] = static_cast<float>(std::sin(angle));
    }
  }
  rope_cosines_ = DeviceArray<float>(positions * half);
  rope_sines_ = DeviceArray<float>(positions * half);
  check(cudaMemcpy(rope_cosines_.get(), cosines.data(), rope_cosines_.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaMemcpy(rope_sines_.get(), sines.data(), rope_sines_.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  rope_ = {.cosines = rope_cosines_.get(), .sines = rope_sines_.get(), .half = static_cast<int32_t>(half)};
}

void Rank::allocate(const DeviceModelOptions& options) {
  const int64_t rows = most_rows_;
  const int64_t hidden = config_.hidden_size;
  const int64_t block = config_.kv_block_size;
  int64_t columns = 0;
  int64_t index_size = 0;
  int64_t visible = 0;
  for (const RankLayer& weights : weights_.layers) {
    LayerCache& cache = caches_.emplace_back();
    columns = std::max<int64_t>(columns, weights.columns.stride);
    if (config_.has_window()) cache.window = DeviceArray<uint8_t>(num_blocks_ * layout_.page_stride_bytes(block));
    if (weights.ratio == 0) continue;
    index_size = config_.index_n_heads * config_.index_head_dim;
    visible = std::max(visible, most_visible(weights.ratio, positions_));
    cache.compressed = DeviceArray<uint8_t>(num_blocks_ * layout_.page_stride_bytes(block / weights.ratio));
    cache.index_keys = DeviceArray<Bf16>(num_blocks_ * (block / weights.ratio) * config_.index_head_dim);
    // As on the CPU: a step may be run again from any of its tokens on.
    cache.ring = DeviceArray<float>(options.sequences * (weights.ratio + FLASHMLA_MAX_QUERY_TOKENS) *
                                    (config_.head_dim + config_.index_head_dim + 1));
  }
  const int64_t table_bytes = 3 * rows * 4 + options.sequences * (16 + blocks_per_sequence_ * 4) + 5 * 16;
  staging_ = Staging(table_bytes);
  hidden_ = DeviceArray<float>(rows * hidden);
  partial_ = DeviceArray<float>(rows * hidden);
  projections_ = DeviceArray<float>(rows * columns);
  raw_queries_ = DeviceArray<float>(rows * (shard_.heads * config_.head_dim + index_size));
  gate_up_ = DeviceArray<float>(rows * 2 * shard_.intermediate);
  features_ = DeviceArray<float>(rows * feature_size());
  scores_ = DeviceArray<float>(rows * visible);
  normed_ = DeviceArray<Bf16>(rows * hidden);
  query_latents_ = DeviceArray<Bf16>(rows * config_.q_lora_rank);
  queries_ = DeviceArray<Bf16>(rows * shard_.heads * config_.head_dim);
  index_queries_ = DeviceArray<Bf16>(rows * index_size);
  outputs_ = DeviceArray<Bf16>(rows * shard_.heads * kValueDim);
  group_outputs_ = DeviceArray<Bf16>(rows * shard_.groups * config_.o_lora_rank);
  activated_ = DeviceArray<Bf16>(rows * shard_.intermediate);
  lse_ = DeviceArray<float>(rows * shard_.heads);
  window_slots_ = DeviceArray<int32_t>(rows * config_.sliding_window);
  window_lengths_ = DeviceArray<int32_t>(rows);
  group_slots_ = DeviceArray<int32_t>(rows * config_.index_topk);
  group_lengths_ = DeviceArray<int32_t>(rows);
  if (!is_first_) return;

  const int64_t logit_rows = std::max(kGraphRows, options.sequences * FLASHMLA_MAX_QUERY_TOKENS);
  logits_ = DeviceArray<float>(logit_rows * config_.vocab_size);
  host_logits_ = PinnedArray<float>(logit_rows * config_.vocab_size);
  gather_ = DeviceArray<int32_t>(logit_rows);
  host_gather_ = PinnedArray<int32_t>(logit_rows);
  if (config_.dspark_block_size == 0) return;
  const int64_t sequences = options.sequences;
  const int64_t draft_rows = sequences * config_.dspark_block_size;
  kept_features_ = DeviceArray<float>(sequences * feature_size());
  draft_staging_ = Staging(sequences * (4 * 4 + config_.dspark_block_size * 8) + 5 * 16);
  draft_.context = DeviceArray<float>(sequences * hidden);
  draft_.hidden = DeviceArray<float>(draft_rows * hidden);
  draft_.gate_up = DeviceArray<float>(draft_rows * 2 * config_.dspark_intermediate_size);
  draft_.down = DeviceArray<float>(draft_rows * hidden);
  draft_.logits = DeviceArray<float>(draft_rows * config_.vocab_size);
  draft_.features = DeviceArray<Bf16>(sequences * feature_size());
  draft_.normed = DeviceArray<Bf16>(draft_rows * hidden);
  draft_.activated = DeviceArray<Bf16>(draft_rows * config_.dspark_intermediate_size);
  draft_.tokens = DeviceArray<int32_t>(draft_rows);
  draft_.best = DeviceArray<uint64_t>(sequences * choose_blocks(static_cast<int32_t>(config_.vocab_size)));
  draft_.arrived = DeviceArray<uint32_t>(sequences);
  draft_.host_tokens = PinnedArray<int32_t>(draft_rows);
}

RowTable Rank::table_of(const ForwardInput& input) const {
  return {.tokens = nullptr,
          .positions = nullptr,
          .segments = nullptr,
          .parts = nullptr,
          .blocks = nullptr,
          .rows = static_cast<int32_t>(input.tokens.size()),
          .num_parts = static_cast<int32_t>(input.parts.size()),
          .query_tokens = input.query_tokens,
          .blocks_per_sequence = static_cast<int32_t>(blocks_per_sequence_),
          .block_size = static_cast<int32_t>(config_.kv_block_size)};
}

void Rank::forward(const ForwardInput& input) {
  RowTable table = table_of(input);
  if (table.rows > most_rows_) throw std::runtime_error("a pass has more rows than it was made for");
  staging_.clear();
  table.tokens = staging_.add(input.tokens);
  table.positions = staging_.add(input.positions);
  table.segments = staging_.add(input.segments);
  table.parts = staging_.add(input.parts);
  table.blocks = staging_.add(input.blocks);
  ready_logits_ = 0;
  bool outdated = false;
  for (size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    outdated = attention_.reserve(attention_call(table, layer)) || outdated;
  }
  if (outdated) graphs_.clear();
  // With as many rows as there are places for query tokens no segment can be longer than those.
  if (table.rows == table.num_parts * table.query_tokens && table.rows <= kGraphRows) {
    run_graph(input, table);
    return;
  }
  Shape shape;
  for (const ForwardInput::Segment& part : input.parts) {
    shape.most_tokens = std::max(shape.most_tokens, part.tokens);
    shape.most_position = std::max(shape.most_position, part.start + part.tokens - 1);
  }
  enqueue(table, shape);
  finish();
}

void Rank::run_graph(const ForwardInput& input, const RowTable& table) {
  // All ranks count alike: a pass that is profiled on one is profiled on all.
  const bool profiled = input.is_verification && --passes_until_profile_ == 0;
  if (profiled) passes_until_profile_ = kProfileInterval;
  const std::array<int32_t, 3> key = {table.num_parts, table.query_tokens, profiled ? 1 : 0};
  auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    const Shape shape = {.most_tokens = table.query_tokens,
                         .most_position = static_cast<int32_t>(positions_ - 1),
                         .with_logits = is_first_,
                         .profiled = profiled};
    found = graphs_.emplace(key, Graph(stream_, [&] { enqueue(table, shape); })).first;
  }
  check(cudaEventRecord(pass_begin_.get(), stream_.get()), "cudaEventRecord");
  found->second.launch(stream_);
  check(cudaEventRecord(pass_end_.get(), stream_.get()), "cudaEventRecord");
  finish();
  if (is_first_) ready_logits_ = table.rows;
  if (!input.is_verification) return;
  const double seconds = pass_end_.since(pass_begin_);
  if (!profiled) {
    ++times_.verify_steps;
    times_.verify_s += seconds;
    return;
  }
  // An event in a graph takes time itself, which the last two show.
  const size_t ends = part_events_.size() - 2;
  const double event_s = part_events_.back().since(part_events_[ends]);
  ++times_.profiled_steps;
  times_.profiled_s += seconds - event_s * static_cast<double>(part_events_.size());
  for (size_t i = 1; i <= ends; ++i) {
    times_.part_s[(i - 1) % kStepParts] += std::max(0.0, part_events_[i].since(part_events_[i - 1]) - event_s);
  }
}

void Rank::logits(const std::vector<int64_t>& rows, std::vector<float>& logits) {
  const auto vocab = static_cast<size_t>(config_.vocab_size);
  logits.resize(rows.size() * vocab);
  if (ready_logits_ == 0) {
    if (static_cast<int64_t>(rows.size()) > host_gather_.size()) {
      throw std::runtime_error("logits of more rows are asked for than there is room for");
    }
    for (size_t i = 0; i < rows.size(); ++i) host_gather_.get()[i] = static_cast<int32_t>(rows[i]);
    check(cudaMemcpyAsync(gather_.get(), host_gather_.get(), rows.size() * sizeof(int32_t), cudaMemcpyHostToDevice,
                          stream_.get()),
          "cudaMemcpyAsync");
    enqueue_logits(gather_.get(), static_cast<int64_t>(rows.size()));
    stream_.wait();
    std::copy_n(host_logits_.get(), logits.size(), logits.begin());
    return;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(host_logits_.get() + static_cast<size_t>(rows[i]) * vocab, vocab,
                logits.begin() + static_cast<std::ptrdiff_t>(i * vocab));
  }
}

void Rank::remember(int64_t row, int64_t slot) {
  if (config_.dspark_block_size == 0) return;
  check(cudaMemcpyAsync(kept_features_.get() + slot * feature_size(), features_.get() + row * feature_size(),
                        static_cast<size_t>(feature_size()) * sizeof(float), cudaMemcpyDeviceToDevice, stream_.get()),
        "cudaMemcpyAsync");
}

void Rank::sum_over_ranks(int64_t rows) {
  if (collective_) collective_->sum(partial_.get(), rows * config_.hidden_size, stream_.get());
}

}  // namespace sweep::engine::embedded::cuda
