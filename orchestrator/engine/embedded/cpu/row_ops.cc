#include "orchestrator/engine/embedded/cpu/row_ops.h"

#include <algorithm>

#include "orchestrator/engine/embedded/cpu/layer_math.h"
#include "orchestrator/engine/embedded/cpu/scratch.h"
#include "orchestrator/engine/embedded/cpu/simd.h"

namespace sweep::engine::embedded::cpu {

void add_mlp(const MlpWeights& mlp, const ModelConfig& config, const float* normed, int64_t rows, float* hidden) {
  Scratch& scratch = Scratch::of_this_thread();
  const int64_t wide = mlp.gate_up.padded_outputs;
  const int64_t inner = mlp.down.inputs;
  float* const gate_up = scratch.get(0, rows * wide);
  float* const activated = scratch.get(1, rows * inner);
  float* const projected = scratch.get(2, rows * mlp.down.padded_outputs);
  mlp.gate_up.multiply(normed, config.hidden_size, rows, gate_up, wide);
  for (int64_t r = 0; r < rows; ++r) {
    silu_multiply(gate_up + r * wide, gate_up + r * wide + mlp.up_offset, inner, activated + r * inner);
  }
  mlp.down.multiply(activated, inner, rows, projected, mlp.down.padded_outputs);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < config.hidden_size; ++i) {
      hidden[r * config.hidden_size + i] += projected[r * mlp.down.padded_outputs + i];
    }
  }
}

void multiply_in_parallel(WorkerPool& workers, const PackedMatrix& matrix, const float* a, int64_t rows, float* c) {
  constexpr int64_t kPanelsAtOnce = 4;
  const int64_t panels = matrix.padded_outputs / kPanelColumns;
  workers.run((panels + kPanelsAtOnce - 1) / kPanelsAtOnce, [&](int64_t index) {
    const int64_t first = index * kPanelsAtOnce;
    matrix.multiply_panels(a, rows, first, std::min(kPanelsAtOnce, panels - first), c);
  });
}

}  // namespace sweep::engine::embedded::cpu
