#include "tests/kernels/fake_kernels.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/bench/plain_read.h"

namespace {

using flashmla::bench::ReadArguments;
using flashmla::bench::ReadCache;
using flashmla::bench::ReadLayout;
using flashmla::bench::RepeatArguments;

struct Repeated {
  uint64_t bytes;
  std::vector<uint8_t> block;
};

// By address.
std::map<uint64_t, Repeated>& repeated() {
  static std::map<uint64_t, Repeated> all;
  return all;
}

uint64_t number_of(const uint8_t* address) {
  return reinterpret_cast<uintptr_t>(address);
}

uint32_t fold_16(const uint8_t* address) {
  auto found = repeated().upper_bound(number_of(address));
  if (found == repeated().begin()) std::abort();
  --found;
  const uint64_t offset = number_of(address) - found->first;
  if (offset + 16 > found->second.bytes || offset % 16 != 0) std::abort();  // a GPU would read elsewhere, or fault
  uint32_t words[4];
  std::memcpy(words, found->second.block.data() + offset % found->second.block.size(), sizeof words);
  return words[0] ^ words[1] ^ words[2] ^ words[3];
}

uint32_t fold(const ReadCache& cache, const ReadLayout& layout) {
  uint32_t folded = 0;
  const uint64_t page_size = uint64_t{1} << layout.page_shift;
  for (uint32_t n = 0; n < cache.count; ++n) {
    if (cache.slots[n] < 0) continue;
    const auto slot = static_cast<uint64_t>(cache.slots[n]);
    const uint8_t* page = cache.pool + slot / page_size * layout.page_stride;
    const uint64_t row = slot % page_size;
    const uint64_t scales = (page_size * layout.data_bytes + row * layout.scale_bytes) / 16 * 16;
    for (uint64_t i = 0; i < layout.data_pieces; ++i) folded ^= fold_16(page + row * layout.data_bytes + 16 * i);
    for (uint64_t i = 0; i < layout.scale_pieces; ++i) folded ^= fold_16(page + scales + 16 * i);
  }
  return folded;
}

}  // namespace

void fake_run_kernel(const char* name, void** arguments) {
  if (std::strcmp(name, "flashmla_repeat") == 0) {
    const auto& repeat = *static_cast<const RepeatArguments*>(arguments[0]);
    repeated()[number_of(repeat.memory)] = {repeat.pieces * 16,
                                            {repeat.block, repeat.block + repeat.block_pieces * 16}};
  } else if (std::strcmp(name, "flashmla_plain_read_fold") == 0) {
    const auto& read = *static_cast<const ReadArguments*>(arguments[0]);
    const uint32_t folded = fold(read.main, read.layout) ^ fold(read.extra, read.layout);
    *read.sink ^= std::getenv("FAKE_CUDA_WRONG_FOLD") != nullptr ? ~folded : folded;
  }
}

void fake_forget(uint64_t address) {
  repeated().erase(address);
}
