// The decoder's own kernels: everything of a step that is neither a matrix product nor attention. All pointers are to
// device memory; all launches are asynchronous, allocate nothing and can be captured into a graph. Sums have a fixed
// order: the same input gives the same bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "flashmla/flashmla.h"
#include "orchestrator/engine/embedded/cuda/device_model.h"
#include "orchestrator/engine/embedded/cuda/product.h"

namespace sweep::engine::embedded::cuda {

// The rows of a forward pass; see ForwardInput.
struct RowTable {
  const int32_t* tokens = nullptr;
  const int32_t* positions = nullptr;
  const int32_t* segments = nullptr;
  const ForwardInput::Segment* parts = nullptr;
  const int32_t* blocks = nullptr;
  int32_t rows = 0;
  int32_t num_parts = 0;
  int32_t query_tokens = 1;
  int32_t blocks_per_sequence = 0;
  int32_t block_size = 1;  // tokens
};

struct RopeTable {
  const float* cosines = nullptr;  // [positions, half]
  const float* sines = nullptr;
  int32_t half = 0;
};

// A paged pool of records.
struct Records {
  uint8_t* pool = nullptr;
  int64_t page_stride = 0;
  int32_t page_size = 0;
  flashmla_kv_format format = FLASHMLA_KV_V4_584;
  int32_t head_dim = 0;
};

// hidden[row, :] = embedding[token, :]; 0 where a row fills up.
struct EmbedArguments {
  RowTable table;
  const Bf16* embedding = nullptr;
  int32_t size = 0;
  float* hidden = nullptr;
};
void embed(const EmbedArguments& arguments, cudaStream_t stream);

// hidden += addend; normed = hidden / rms(hidden) * weight; features = hidden.
struct AddNormArguments {
  int32_t rows = 0;
  int32_t size = 0;
  float* hidden = nullptr;
  const float* addend = nullptr;  // null: none
  const float* weight = nullptr;
  float epsilon = 0;
  Bf16* normed = nullptr;
  float* features = nullptr;  // null: not kept
  int64_t features_stride = 0;
  const int32_t* gather =
      nullptr;  // rows of `hidden` to take, for rows of `normed`; null: the same. Not with an addend
};
void add_norm(const AddNormArguments& arguments, cudaStream_t stream);

// Columns of the product of the normed hidden state with all projections that read it.
struct ProjectionColumns {
  int32_t stride = 0;
  int32_t query = 0;          // q_lora_rank
  int32_t kv = -1;            // head_dim; -1: no window
  int32_t compressor = -1;    // head_dim + index_head_dim + 1 (gate); -1: no compressed latents
  int32_t index_weights = 0;  // index_n_heads
};

// The query's latent, normed; the window's record, normed, rotated and written to its place.
struct LatentArguments {
  RowTable table;
  const float* projections = nullptr;
  ProjectionColumns columns;
  int32_t query_rank = 0;
  const float* query_norm = nullptr;
  Bf16* query_latents = nullptr;  // [rows, query_rank]
  const float* kv_norm = nullptr;
  Records window;
  RopeTable rope;
  float epsilon = 0;
};
void make_latents(const LatentArguments& arguments, cudaStream_t stream);

// Queries, rotated, and the indexer's queries, both as BF16.
struct QueryArguments {
  RowTable table;
  const float* raw = nullptr;  // [rows, heads * head_dim + index_size]
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t index_size = 0;
  RopeTable rope;
  Bf16* queries = nullptr;
  Bf16* index_queries = nullptr;
};
void make_queries(const QueryArguments& arguments, cudaStream_t stream);

// Compresses the groups of tokens that end in this pass, then keeps the newest inputs of each sequence.
struct CompressArguments {
  RowTable table;
  const float* projections = nullptr;
  ProjectionColumns columns;
  int32_t ratio = 1;
  int32_t index_dim = 0;
  const float* position_bias = nullptr;
  const float* norm = nullptr;
  float epsilon = 0;
  RopeTable rope;
  Records compressed;
  Bf16* index_keys = nullptr;  // [page, page_size, index_dim]
  float* ring = nullptr;       // [slot, ring_rows, head_dim + index_dim + 1]
  int32_t ring_rows = 0;
  int32_t most_tokens = 0;  // of a segment of this pass
};
void compress(const CompressArguments& arguments, cudaStream_t stream);

// Slots of the window [rows, window], -1 behind them; how many there are at most in a group of query tokens.
struct WindowArguments {
  RowTable table;
  int32_t window = 0;
  int32_t* slots = nullptr;
  int32_t* lengths = nullptr;  // [rows / query_tokens]
};
void select_window(const WindowArguments& arguments, cudaStream_t stream);

// scores[row, g] = sum over heads of weight * max(0, query . key g), for the groups that the row sees.
struct ScoreArguments {
  RowTable table;
  int32_t ratio = 1;
  bool sees_own = false;  // a group that ends with the query counts
  int32_t heads = 0;
  int32_t dim = 0;
  int32_t page_size = 0;
  const Bf16* queries = nullptr;  // [rows, heads, dim]
  const float* weights = nullptr;
  int64_t weights_stride = 0;
  const Bf16* keys = nullptr;
  float* scores = nullptr;
  int64_t scores_stride = 0;
  int32_t most_groups = 0;  // that any row of this pass sees
};
void score_groups(const ScoreArguments& arguments, cudaStream_t stream);

// Slots of the best `topk` groups in ascending order of place; of equal scores the earlier ones. A row that sees at
// most `topk` takes all, and its scores are not read.
struct SelectArguments {
  RowTable table;
  int32_t ratio = 1;
  bool sees_own = false;
  int32_t topk = 0;
  int32_t page_size = 0;
  const float* scores = nullptr;
  int64_t scores_stride = 0;
  int32_t most_groups = 0;     // that any row of this pass sees
  int32_t* slots = nullptr;    // [rows, topk]
  int32_t* lengths = nullptr;  // [rows / query_tokens]
};
void select_groups(const SelectArguments& arguments, cudaStream_t stream);

// Turns the rotary part of outputs [rows, heads, 512] back by the row's position.
struct TurnBackArguments {
  RowTable table;
  Bf16* outputs = nullptr;
  int32_t heads = 0;
  RopeTable rope;
};
void turn_back(const TurnBackArguments& arguments, cudaStream_t stream);

// to[row, i] = silu(gate) * up, where columns of gate and up take turns: `unit` of one, `unit` of the other.
struct SiluArguments {
  const float* gate_up = nullptr;  // [rows, 2 * size]
  int32_t rows = 0;
  int32_t size = 0;
  int32_t unit = 1;
  Bf16* to = nullptr;
};
void silu_multiply(const SiluArguments& arguments, cudaStream_t stream);

// hidden[sequence, k, :] = context[sequence, :] + position[k, :]; rows of the draft block.
struct DraftRowsArguments {
  int32_t sequences = 0;
  int32_t count = 0;
  int32_t size = 0;
  const float* context = nullptr;
  const Bf16* position_embeddings = nullptr;
  float* hidden = nullptr;
};
void make_draft_rows(const DraftRowsArguments& arguments, cudaStream_t stream);

// features[i, :] of slots[i], as BF16.
void gather_features(const float* kept, const int32_t* slots, int32_t sequences, int64_t size, Bf16* to,
                     cudaStream_t stream);

// Draft `position` of every sequence: adds the Markov factor of the token before to its logits and chooses.
struct ChooseArguments {
  int32_t sequences = 0;
  int32_t count = 0;     // drafts for each sequence
  int32_t position = 0;  // of the draft chosen here
  int32_t vocab = 0;
  int32_t rank = 0;
  int32_t end_token = 0;
  float impossible = 0;              // the end token's logit where it is masked
  float* logits = nullptr;           // [sequence, count, vocab]
  const Bf16* markov_in = nullptr;   // [vocab, rank]
  const Bf16* markov_out = nullptr;  // [vocab, rank]
  const int32_t* last_tokens = nullptr;
  const int32_t* masked = nullptr;
  const float* temperatures = nullptr;
  const double* uniforms = nullptr;  // [sequence, count]
  int32_t* tokens = nullptr;         // [sequence, count]
  uint64_t* best = nullptr;          // [sequence, choose_blocks(vocab)]
  uint32_t* arrived = nullptr;       // [sequence], zero between calls
};
int32_t choose_blocks(int32_t vocab);
void choose_draft(const ChooseArguments& arguments, cudaStream_t stream);

}  // namespace sweep::engine::embedded::cuda
