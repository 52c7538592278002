// The memory of one case: inputs with poison wherever a kernel must not look, outputs with guards wherever it must not
// write.
#pragma once

#include <cstdint>
#include <vector>

#include "flashmla/flashmla.h"
#include "kernels/gate/cases.h"

namespace flashmla::gate {

struct RowStrides {
  int64_t batch, token, head;
};

// What a run writes. Compared as bytes, guards included.
struct Outputs {
  std::vector<uint16_t> out;
  std::vector<float> lse;
  bool operator==(const Outputs&) const = delete;  // NaN: use same_bytes()
};

bool same_bytes(const Outputs& a, const Outputs& b);

// One piece of input memory; nothing before or behind it may be touched.
struct Region {
  const void* data;
  size_t bytes;
};

class Problem {
 public:
  explicit Problem(const Case& one);

  // Parameters without outputs and workspace. Valid as long as the problem is.
  const flashmla_sparse_decode_params& sparse() const { return sparse_; }
  const flashmla_dense_decode_params& dense() const { return dense_; }

  // Outputs full of guard values, and the parameters that point to them.
  Outputs make_outputs() const;
  flashmla_sparse_decode_params sparse_into(Outputs& outputs) const;
  flashmla_dense_decode_params dense_into(Outputs& outputs) const;

  // All the memory that the parameters point into. Cases that differ in their seed by an even number have regions of
  // the same number and sizes, and the same parameters apart from pointers.
  std::vector<Region> inputs() const;

  // Places of a row in Outputs.
  int64_t out_at(int32_t b, int32_t t, int32_t h) const;
  int64_t lse_at(int32_t b, int32_t t, int32_t h) const;

  // True if every value outside the addressed rows still is a guard.
  bool guards_intact(const Outputs& outputs) const;

 private:
  struct Cache {
    std::vector<uint8_t> pool;
    std::vector<int32_t> indices;
    std::vector<int32_t> topk_length;
  };

  void make_sparse(const Case& one);
  void make_dense(const Case& one);
  void make_queries(const Case& one, int32_t d_qk);
  template <typename Params>
  Params direct(Params params, Outputs& outputs) const;

  int32_t batch_, s_q_, num_heads_;
  int64_t first_;  // where the first row of queries and outputs begins, in elements
  std::vector<uint16_t> q_;
  RowStrides q_strides_{}, out_strides_{}, lse_strides_{};
  Cache main_, extra_;
  std::vector<float> sink_;
  std::vector<uint16_t> kv_;
  std::vector<int32_t> block_table_, seq_lens_;
  flashmla_sparse_decode_params sparse_{};
  flashmla_dense_decode_params dense_{};
};

}  // namespace flashmla::gate
