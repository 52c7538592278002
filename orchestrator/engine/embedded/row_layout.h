// Where the tokens of a forward pass stand among the rows of its matrices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "orchestrator/engine/embedded/decoder.h"

namespace sweep::engine::embedded {

struct RowLayout {
  struct Row {
    int32_t segment = -1;  // -1: fills up a group of query tokens
    int64_t position = 0;
  };
  std::vector<Row> rows;               // a multiple of the query tokens
  std::vector<int64_t> segment_begin;  // first row of each segment

  // Gives each segment a whole number of kernel rows of `query_tokens` tokens; what is left over in the last is empty.
  static RowLayout of(std::span<const Segment> segments, int32_t query_tokens);

  int64_t row_of(size_t segment, int64_t offset) const { return segment_begin[segment] + offset; }
};

}  // namespace sweep::engine::embedded
