#include "orchestrator/engine/embedded/cpu/decoder.h"

#include <algorithm>
#include <cmath>

#include "orchestrator/engine/embedded/cpu/row_ops.h"
#include "orchestrator/engine/embedded/cpu/scratch.h"
#include "orchestrator/engine/embedded/cpu/simd.h"
#include "orchestrator/engine/embedded/sampling.h"

namespace sweep::engine::embedded::cpu {

namespace {

// Rows that go through a layer's matrices together: two full register blocks of the widest kernel, and small enough
// that their intermediate values stay in the L2 cache.
constexpr int64_t kRowBlock = 24;

}  // namespace

CpuDecoder::CpuDecoder(const Checkpoint& checkpoint, KernelLibrary& kernels, const Options& options)
    : model_(arrange(checkpoint)),
      config_(model_.config),
      kernels_(kernels),
      workers_(options.threads),
      cache_(config_, options.num_blocks),
      drafter_(model_, workers_),
      rope_(config_.qk_rope_head_dim, config_.rope_theta, options.positions),
      softmax_scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)))) {}

struct CpuDecoder::Memory final : SequenceMemory {
  // Per layer: the compressor's inputs of the newest tokens, place = position modulo the ring's rows. A group of tokens
  // is compressed again whenever one of its tokens is run again, so only committed tokens shape what stays.
  std::vector<std::vector<float>> rings;
  std::vector<float>
      features;  // what the drafter reads: of the newest token that the target has run and that is committed
};

std::unique_ptr<SequenceMemory> CpuDecoder::make_memory() {
  auto memory = std::make_unique<Memory>();
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    memory->rings.emplace_back(static_cast<size_t>(ring_rows(layer) * ring_columns()));
  }
  return memory;
}

CpuDecoder::Memory& CpuDecoder::memory_of(const Segment& segment) {
  return static_cast<Memory&>(*segment.sequence->memory);
}

std::vector<float>& CpuDecoder::ring_of(const Segment& segment, int64_t layer) {
  return memory_of(segment).rings[static_cast<size_t>(layer)];
}

// A verification step may be run again from any of its tokens on: the ring must then still hold the rest of the group
// that the first of them belongs to.
int64_t CpuDecoder::ring_rows(int64_t layer) const {
  const int64_t ratio = config_.compress_ratios[static_cast<size_t>(layer)];
  return ratio == 0 ? 0 : ratio + FLASHMLA_MAX_QUERY_TOKENS;
}

int64_t CpuDecoder::feature_size() const {
  return static_cast<int64_t>(config_.dspark_target_layer_ids.size()) * config_.hidden_size;
}

diag::Result<diag::Done> CpuDecoder::remember(Sequence& sequence, int64_t row) {
  const auto begin = features_.begin() + row * feature_size();
  static_cast<Memory&>(*sequence.memory).features.assign(begin, begin + feature_size());
  return diag::Done{};
}

diag::Result<Drafts> CpuDecoder::draft(std::span<const DraftRequest> requests, int64_t count) {
  std::vector<DraftHead::Context> contexts;
  for (const auto& request : requests) {
    contexts.push_back({static_cast<const Memory&>(*request.sequence->memory).features, request.last_token});
  }
  Drafts drafts;
  drafts.shares.resize(requests.size() * static_cast<size_t>(count));
  drafts.tokens = drafter_.propose(contexts, count, [&](size_t index, int64_t position, std::span<float> logits) {
    const DraftRequest& request = requests[index];
    if (position < request.masked) logits[static_cast<size_t>(config_.eos_token_id)] = kImpossibleLogit;
    if (request.temperature == 0) return greedy_token(logits);
    auto& shares = drafts.shares[index * static_cast<size_t>(count) + static_cast<size_t>(position)];
    shares = softmax(logits, request.temperature);
    return sample_token(shares, request.uniforms[static_cast<size_t>(position)]);
  });
  return drafts;
}

template <class Function>
void CpuDecoder::for_row_blocks(Function function) {
  const auto rows = static_cast<int64_t>(layout_.rows.size());
  const int64_t threads = workers_.threads();
  const int64_t block = std::clamp((rows + threads - 1) / threads, int64_t{1}, kRowBlock);
  workers_.run((rows + block - 1) / block,
               [&](int64_t index) { function(index * block, std::min(block, rows - index * block)); });
}

const Sequence* CpuDecoder::sequence_of(const RowLayout::Row& row) const {
  return row.segment < 0 ? nullptr : segments_[static_cast<size_t>(row.segment)].sequence;
}

void CpuDecoder::lay_out(std::span<const Segment> segments) {
  segments_ = segments;
  layout_ = RowLayout::of(segments, query_tokens_);
  const size_t rows = layout_.rows.size();
  const auto size = [rows](int64_t columns) { return rows * static_cast<size_t>(columns); };
  hidden_.assign(size(config_.hidden_size), 0.0F);
  features_.resize(size(feature_size()));
  query_latents_.resize(size(model_.layers[0].q_a.padded_outputs));
  queries_.resize(size(config_.query_size()));
  outputs_.resize(size(config_.output_size()));
  lse_.resize(size(config_.num_attention_heads));
  window_slots_.resize(size(config_.sliding_window));
  compressed_slots_.resize(size(config_.index_topk));
  for (size_t s = 0; s < segments.size(); ++s) {
    float* hidden = hidden_.data() + layout_.segment_begin[s] * config_.hidden_size;
    for (const int32_t token : segments[s].tokens) {
      const float* embedding = model_.embedding.data() + token * config_.hidden_size;
      hidden = std::copy_n(embedding, config_.hidden_size, hidden);
    }
  }
}

diag::Result<diag::Done> CpuDecoder::forward(std::span<const Segment> segments, int32_t query_tokens, Pass /*pass*/) {
  query_tokens_ = query_tokens;
  lay_out(segments);
  const auto rows = static_cast<int64_t>(layout_.rows.size());
  for_row_blocks([&](int64_t first, int64_t count) {
    for (int64_t row = first; config_.has_window() && row < first + count; ++row) select_window(row);
  });
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const CompressorWeights& compressor = model_.layers[static_cast<size_t>(layer)].compressor;
    if (compressor.ratio > 0) {
      compressor_inputs_.resize(static_cast<size_t>(rows * compressor.projections.padded_outputs));
    }
    for_row_blocks([&](int64_t first, int64_t count) { project(layer, first, count); });
    if (compressor.ratio > 0) {
      compress(layer);
      workers_.run(rows, [&](int64_t row) { select_compressed(layer, row); });
    }
    if (auto attended = attend(layer); !attended) return attended;
    for_row_blocks([&](int64_t first, int64_t count) {
      finish_attention(layer, first, count);
      run_mlp(layer, first, count);
    });
  }
  return diag::Done{};
}

void CpuDecoder::finish_attention(int64_t layer, int64_t first_row, int64_t rows) {
  const LayerWeights& weights = model_.layers[static_cast<size_t>(layer)];
  const int64_t group_size = config_.output_size() / config_.o_groups;
  Scratch& scratch = Scratch::of_this_thread();
  float* const group_input = scratch.get(0, rows * group_size);
  float* const group_output = scratch.get(1, rows * weights.o_a[0].padded_outputs);
  float* const joined = scratch.get(2, rows * config_.o_rank_total());
  float* const projected = scratch.get(3, rows * weights.o_b.padded_outputs);
  for (int64_t group = 0; group < config_.o_groups; ++group) {
    const PackedMatrix& matrix = weights.o_a[static_cast<size_t>(group)];
    for (int64_t r = 0; r < rows; ++r) {
      float* const input = group_input + r * group_size;
      simd().from_bf16(outputs_.data() + (first_row + r) * config_.output_size() + group * group_size, input,
                       group_size);
      // The values carry the rotation of their keys' positions; turning back by the query's leaves relative ones.
      for (int64_t head = 0; config_.rotates_values() && head < group_size; head += kValueDim) {
        rope_.rotate_back(input + head + config_.nope_head_dim(),
                          layout_.rows[static_cast<size_t>(first_row + r)].position);
      }
    }
    matrix.multiply(group_input, group_size, rows, group_output, matrix.padded_outputs);
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(group_output + r * matrix.padded_outputs, matrix.outputs,
                  joined + r * config_.o_rank_total() + group * matrix.outputs);
    }
  }
  weights.o_b.multiply(joined, config_.o_rank_total(), rows, projected, weights.o_b.padded_outputs);
  for (int64_t r = 0; r < rows; ++r) {
    float* const hidden = hidden_.data() + (first_row + r) * config_.hidden_size;
    const float* const addend = projected + r * weights.o_b.padded_outputs;
    for (int64_t i = 0; i < config_.hidden_size; ++i) hidden[i] += addend[i];
  }
}

void CpuDecoder::run_mlp(int64_t layer, int64_t first_row, int64_t rows) {
  const LayerWeights& weights = model_.layers[static_cast<size_t>(layer)];
  const int64_t size = config_.hidden_size;
  float* const normed = Scratch::of_this_thread().get(4, rows * size);
  float* const hidden = hidden_.data() + first_row * size;
  for (int64_t r = 0; r < rows; ++r) {
    rms_norm(hidden + r * size, weights.post_norm.data(), size, config_.rms_norm_eps, normed + r * size);
  }
  add_mlp(weights.mlp, config_, normed, rows, hidden);
  for (size_t i = 0; i < config_.dspark_target_layer_ids.size(); ++i) {
    if (config_.dspark_target_layer_ids[i] != layer) continue;
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(hidden + r * size, size,
                  features_.data() + (first_row + r) * feature_size() + static_cast<int64_t>(i) * size);
    }
  }
}

diag::Result<diag::Done> CpuDecoder::logits(std::span<const int64_t> rows, std::vector<float>& logits) {
  const int64_t size = config_.hidden_size;
  std::vector<float> normed(rows.size() * static_cast<size_t>(size));
  for (size_t i = 0; i < rows.size(); ++i) {
    rms_norm(hidden_.data() + rows[i] * size, model_.norm.data(), size, config_.rms_norm_eps,
             normed.data() + static_cast<int64_t>(i) * size);
  }
  logits.resize(rows.size() * static_cast<size_t>(logits_stride()));
  multiply_in_parallel(workers_, model_.lm_head, normed.data(), static_cast<int64_t>(rows.size()), logits.data());
  return diag::Done{};
}

}  // namespace sweep::engine::embedded::cpu
