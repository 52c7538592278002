#include "kernels/cpu/row_cache.h"

#include <cstdlib>
#include <memory>
#include <set>

#include "tests/support/catch.h"

namespace flashmla::cpu {
namespace {

constexpr int64_t kRowFloats = 16;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

std::unique_ptr<void, Free> cache_memory() {
  const auto bytes = static_cast<size_t>((RowCache::bytes(kRowFloats) + 63) / 64 * 64);
  return std::unique_ptr<void, Free>(std::aligned_alloc(64, bytes));
}

TEST_CASE("row cache: a slot is filled once and found again, in this tile and in later ones") {
  const auto memory = cache_memory();
  RowCache cache(memory.get(), kRowFloats);
  cache.start_tile();
  bool missed = false;
  float* row = cache.find(0, 5, &missed);
  CHECK(missed);
  CHECK(cache.find(0, 5, &missed) == row);
  CHECK_FALSE(missed);
  cache.start_tile();
  CHECK(cache.find(0, 5, &missed) == row);
  CHECK_FALSE(missed);
}

TEST_CASE("row cache: the same slot of another source is another row") {
  const auto memory = cache_memory();
  RowCache cache(memory.get(), kRowFloats);
  cache.start_tile();
  bool missed = false;
  float* row = cache.find(0, 5, &missed);
  CHECK(cache.find(1, 5, &missed) != row);
  CHECK(missed);
}

TEST_CASE("row cache: slots that compete for a line all have rows of their own within a tile") {
  const auto memory = cache_memory();
  RowCache cache(memory.get(), kRowFloats);
  for (int tile = 0; tile < 3; ++tile) {
    cache.start_tile();
    std::set<float*> rows;
    for (int32_t i = 0; i < kTileTokens; ++i) {
      bool missed = false;
      rows.insert(cache.find(0, i * RowCache::kLines, &missed));
    }
    CHECK(rows.size() == kTileTokens);
  }
}

}  // namespace
}  // namespace flashmla::cpu
