// The shapes that are timed, with data that looks like an engine's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flashmla/flashmla.h"

namespace flashmla::bench {

struct Shape {
  std::string name;
  flashmla_kv_format format = FLASHMLA_KV_V4_584;
  int32_t batch = 1;
  int32_t s_q = 1;
  int32_t num_heads = 8;
  int32_t main_topk = 128;   // the window: the last 128 tokens of each query token
  int32_t extra_topk = 512;  // 512 of `extra_slots` compressed tokens
  int32_t extra_slots = 2048;
  double shared = 0.9;  // part of the extra selection that a query token shares with its request
};

std::vector<Shape> shapes();

// Owns everything a call needs but the workspace.
class Workload {
 public:
  explicit Workload(const Shape& shape);
  flashmla_sparse_decode_params params() const { return params_; }
  // Multiply-adds count twice; only score and value products are counted.
  double flops() const { return flops_; }

 private:
  std::vector<uint16_t> q_, out_;
  std::vector<float> lse_, sink_;
  std::vector<uint8_t> main_pool_, extra_pool_;
  std::vector<int32_t> main_indices_, extra_indices_;
  flashmla_sparse_decode_params params_{};
  double flops_ = 0;
};

}  // namespace flashmla::bench
