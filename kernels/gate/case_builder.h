// Collects cases; each gets a seed of its own. The sets of cases live in *_cases.cc.
#pragma once

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "kernels/gate/cases.h"

namespace flashmla::gate {

constexpr flashmla_kv_format kFormats[] = {FLASHMLA_KV_V4_584, FLASHMLA_KV_V32_656, FLASHMLA_KV_V41_528,
                                           FLASHMLA_KV_V41_FP4_288};
constexpr int32_t kHeadCounts[] = {1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 24, 32, 48, 64, 96, 128};
// Token counts around the sizes kernels cut their work into, and those of the models.
constexpr int32_t kTokenCounts[] = {15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 640, 1152, 2048};

class CaseBuilder {
 public:
  explicit CaseBuilder(uint64_t seed) : seed_(seed) {}

  // The case gets `name` and a seed of its own; `edit` changes the defaults.
  template <typename Edit>
  void add(std::string name, Edit edit) {
    Case one;
    one.name = std::move(name);
    one.seed = seed_ * 1000003U + cases_.size();
    edit(one);
    cases_.push_back(std::move(one));
  }

  std::vector<Case> take() { return std::move(cases_); }

 private:
  uint64_t seed_;
  std::vector<Case> cases_;
};

void add_model_shapes(CaseBuilder& builder);
void add_large_model_shapes(CaseBuilder& builder);
void add_many_rows(CaseBuilder& builder);
void add_two_formats(CaseBuilder& builder);                                 // in "main" and "extra"
void add_published_shapes(CaseBuilder& builder);                            // of upstream's table of errors
void add_head_counts(CaseBuilder& builder);                                 // every format with every head count
void add_query_tokens(CaseBuilder& builder);                                // every format with 1 to 16 query tokens
void add_token_counts(CaseBuilder& builder);                                // every format with kTokenCounts
void add_edges(CaseBuilder& builder, flashmla_kv_format format);            // what decides more often than size does
void add_hostile_numbers(CaseBuilder& builder, flashmla_kv_format format);  // scales, queries, zeros, infinities
void add_dense(CaseBuilder& builder);
void add_dense_sizes(CaseBuilder& builder);
void add_random(CaseBuilder& builder, uint64_t seed, int count);

}  // namespace flashmla::gate
