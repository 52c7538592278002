// The arguments of the kernels in plain_read.cu, shared by host and device.
#pragma once

#include <cstdint>

namespace flashmla::bench {

// Rows of a paged pool, chosen by a list of slots (a negative one is skipped), as flashmla_sparse_kv describes them.
struct ReadCache {
  const uint8_t* pool;  // 16-byte aligned
  const int32_t* slots;
  uint32_t count;  // of slots; 0: not used
};

// Where rows are, the same for both caches. A dense cache is the same thing with one row a page: its slots are the page
// numbers of the block table.
struct ReadLayout {
  uint64_t page_stride;   // bytes, a multiple of 16
  uint32_t page_shift;    // log2 of the rows in a page
  uint32_t data_bytes;    // of a row, a multiple of 16
  uint32_t scale_bytes;   // of a row, behind all data rows of the page; 0, 8 or a multiple of 16
  uint32_t data_pieces;   // 16-byte loads of a data row
  uint32_t scale_pieces;  // and of a scale row; 8 bytes are read with their neighbours in the same 16
};

struct ReadArguments {
  ReadCache main, extra;
  ReadLayout layout;
  uint32_t* sink;      // one word
  uint32_t sink_when;  // the word is written where a thread's bytes fold to this value
};

struct LinearReadArguments {
  const uint8_t* data;
  uint64_t pieces;  // of 16 bytes
  uint32_t* sink;
  uint32_t sink_when;
};

struct RepeatArguments {
  uint8_t* memory;
  uint64_t pieces;  // of 16 bytes
  const uint8_t* block;
  uint64_t block_pieces;
};

}  // namespace flashmla::bench
