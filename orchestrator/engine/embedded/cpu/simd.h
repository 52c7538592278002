// The arithmetic inner loops, chosen once for the machine at hand. Every output element is one chain of multiply-adds
// in the order of the inner dimension, whatever the number of rows: a row's result does not depend on its neighbours.
#pragma once

#include <cstdint>

namespace sweep::engine::embedded::cpu {

// Columns of a packed weight panel; outputs are padded to a multiple of it.
inline constexpr int64_t kPanelColumns = 32;

// c[row, :] = a[row, :] w for `rows` rows. `panels` is [columns / kPanelColumns][inner][kPanelColumns].
struct MatmulArguments {
  const float* a = nullptr;
  int64_t a_stride = 0;
  int64_t rows = 0;
  const float* panels = nullptr;
  int64_t inner = 0;
  int64_t columns = 0;  // a multiple of kPanelColumns
  float* c = nullptr;
  int64_t c_stride = 0;
};

// scores[g] = sum over heads of weights[h] * max(0, sum over d of queries[h, d] * keys[d, g])
struct IndexScoreArguments {
  const float* queries = nullptr;  // [heads, dim]
  const float* weights = nullptr;  // [heads]
  int64_t heads = 0;
  int64_t dim = 0;
  const float* keys = nullptr;  // [dim, keys_stride]
  int64_t keys_stride = 0;      // a multiple of kScoreColumns
  int64_t columns = 0;          // scores wanted; rounded up to a multiple of kScoreColumns in keys and scores
  float* scores = nullptr;
};
inline constexpr int64_t kScoreColumns = 64;

struct SimdKernels {
  const char* name;  // "avx512", "avx2", "generic"
  void (*matmul)(const MatmulArguments&);
  void (*index_scores)(const IndexScoreArguments&);
  void (*to_bf16)(const float* from, uint16_t* to, int64_t count);  // round to nearest even
  void (*from_bf16)(const uint16_t* from, float* to, int64_t count);
};

extern const SimdKernels kSimdGeneric;
#if defined(SWEEPCTL_EMBEDDED_X86)
extern const SimdKernels kSimdAvx2;
extern const SimdKernels kSimdAvx512;
#endif

// The best set this machine can run.
const SimdKernels& simd();

}  // namespace sweep::engine::embedded::cpu
