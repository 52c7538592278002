#include "orchestrator/engine/embedded/cuda/decoder.h"

#include <algorithm>
#include <utility>

#include "orchestrator/base/check.h"
#include "orchestrator/diag/rules/embedded.h"
#include "orchestrator/engine/embedded/cuda/plugin.h"
#include "orchestrator/engine/embedded/cuda/shard.h"
#include "orchestrator/engine/embedded/sampling.h"

namespace sweep::engine::embedded::cuda {

namespace {

diag::Result<diag::Done> outcome(std::string problem) {
  if (problem.empty()) return diag::Done{};
  return diag::fail(diag::rule::embedded_device, std::move(problem));
}

}  // namespace

// A slot of the device's buffers.
class CudaDecoder::Memory final : public SequenceMemory {
 public:
  explicit Memory(std::shared_ptr<std::vector<int32_t>> free_slots) : free_slots_(std::move(free_slots)) {
    SWEEPCTL_CHECK(!free_slots_->empty());
    slot_ = free_slots_->back();
    free_slots_->pop_back();
  }
  ~Memory() override { free_slots_->push_back(slot_); }
  int32_t slot() const { return slot_; }

 private:
  std::shared_ptr<std::vector<int32_t>> free_slots_;
  int32_t slot_ = 0;
};

diag::Result<std::unique_ptr<CudaDecoder>> CudaDecoder::make(const Checkpoint& checkpoint, const KernelLibrary& kernels,
                                                             const Options& options) {
  if (auto problem = shard_problem(checkpoint.config, options.ranks); !problem.empty()) {
    return diag::fail(diag::rule::embedded_options, std::move(problem));
  }
  DeviceModelOptions wanted;
  wanted.kernels = kernels.functions();
  wanted.ranks = options.ranks;
  wanted.num_blocks = options.num_blocks;
  wanted.sequences = options.sequences;
  wanted.positions = options.positions;
  wanted.rows = options.rows;
  auto model = make_device_model(options.library, checkpoint, wanted);
  if (!model) return diag::fail(model.error());
  return std::unique_ptr<CudaDecoder>(new CudaDecoder(std::move(model).value(), checkpoint.config, options));
}

CudaDecoder::CudaDecoder(std::unique_ptr<DeviceModel> model, const ModelConfig& config, const Options& options)
    : model_(std::move(model)),
      vocab_size_(config.vocab_size),
      ranks_(options.ranks),
      free_slots_(std::make_shared<std::vector<int32_t>>()) {
  for (int64_t slot = options.sequences; slot-- > 0;) free_slots_->push_back(static_cast<int32_t>(slot));
}

std::unique_ptr<SequenceMemory> CudaDecoder::make_memory() {
  return std::make_unique<Memory>(free_slots_);
}

int32_t CudaDecoder::slot_of(const Sequence& sequence) {
  return static_cast<const Memory&>(*sequence.memory).slot();
}

ForwardInput make_input(std::span<const Segment> segments, std::span<const int32_t> slots, const RowLayout& layout,
                        int64_t blocks_per_sequence) {
  ForwardInput input;
  for (const RowLayout::Row& row : layout.rows) {
    input.positions.push_back(row.segment < 0 ? -1 : static_cast<int32_t>(row.position));
    input.segments.push_back(std::max(row.segment, 0));
    input.tokens.push_back(row.segment < 0 ? 0
                                           : segments[static_cast<size_t>(row.segment)].tokens[static_cast<size_t>(
                                                 row.position - segments[static_cast<size_t>(row.segment)].start)]);
  }
  for (size_t s = 0; s < segments.size(); ++s) {
    input.parts.push_back({.slot = slots[s],
                           .start = static_cast<int32_t>(segments[s].start),
                           .tokens = static_cast<int32_t>(segments[s].tokens.size()),
                           .first_row = static_cast<int32_t>(layout.segment_begin[s])});
    std::vector<int32_t> blocks = segments[s].sequence->blocks;
    blocks.resize(static_cast<size_t>(blocks_per_sequence));
    input.blocks.insert(input.blocks.end(), blocks.begin(), blocks.end());
  }
  return input;
}

diag::Result<diag::Done> CudaDecoder::forward(std::span<const Segment> segments, int32_t query_tokens, Pass pass) {
  layout_ = RowLayout::of(segments, query_tokens);
  std::vector<int32_t> slots;
  for (const Segment& segment : segments) slots.push_back(slot_of(*segment.sequence));
  ForwardInput input = make_input(segments, slots, layout_, model_->blocks_per_sequence());
  input.query_tokens = query_tokens;
  input.is_verification = pass == Pass::kVerify;
  return outcome(model_->forward(input));
}

diag::Result<diag::Done> CudaDecoder::logits(std::span<const int64_t> rows, std::vector<float>& logits) {
  return outcome(model_->logits({rows.begin(), rows.end()}, logits));
}

diag::Result<diag::Done> CudaDecoder::remember(Sequence& sequence, int64_t row) {
  return outcome(model_->remember(row, slot_of(sequence)));
}

diag::Result<Drafts> CudaDecoder::draft(std::span<const DraftRequest> requests, int64_t count) {
  DraftInput input;
  input.count = static_cast<int32_t>(count);
  for (const DraftRequest& request : requests) {
    input.slots.push_back(slot_of(*request.sequence));
    input.last_tokens.push_back(request.last_token);
    input.masked.push_back(static_cast<int32_t>(std::clamp<int64_t>(request.masked, 0, count)));
    input.temperatures.push_back(static_cast<float>(request.temperature));
    std::vector<double> uniforms = request.uniforms;
    uniforms.resize(static_cast<size_t>(count));
    input.uniforms.insert(input.uniforms.end(), uniforms.begin(), uniforms.end());
  }
  Drafts drafts;
  std::vector<float> logits;
  if (auto done = outcome(model_->draft(input, drafts.tokens, logits)); !done) return diag::fail(done.error());
  drafts.shares.resize(drafts.tokens.size());
  for (size_t i = 0; i < drafts.tokens.size(); ++i) {
    const DraftRequest& request = requests[i / static_cast<size_t>(count)];
    if (request.temperature == 0) continue;
    const auto vocab = static_cast<size_t>(vocab_size_);
    drafts.shares[i] = softmax(std::span(logits).subspan(i * vocab, vocab), request.temperature);
  }
  return drafts;
}

}  // namespace sweep::engine::embedded::cuda
