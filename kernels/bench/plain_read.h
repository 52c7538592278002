// The arguments of the kernels in plain_read.cu, shared by host and device.
#pragma once

#include <cstdint>

namespace flashmla::bench {

// Rows of a paged pool, chosen by a list of slots (a negative one is skipped), as flashmla_sparse_kv describes them. A
// dense cache is the same thing with one row a page: its slots are the page numbers of the block table.
struct ReadCache {
  const uint8_t* pool;  // 16-byte aligned, as page_stride, data_bytes and the first scale row are
  const int32_t* slots;
  uint32_t count;         // of slots
  uint32_t page_shift;    // log2 of the rows in a page
  uint64_t page_stride;   // bytes
  uint32_t data_bytes;    // per row
  uint32_t scale_bytes;   // per row, behind all data rows of the page; 0, 8 or a multiple of 16
  uint32_t data_pieces;   // 16-byte loads of a data row
  uint32_t scale_pieces;  // and of a scale row; 8 bytes are read with their neighbours in the same 16
};

struct ReadArguments {
  ReadCache main;
  ReadCache extra;     // count 0: not used. As many pieces a row as main
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
