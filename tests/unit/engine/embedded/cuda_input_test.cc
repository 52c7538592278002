// A forward pass as the device model takes it.
#include "orchestrator/engine/embedded/cuda/decoder.h"
#include "tests/support/catch.h"

using namespace sweep::engine::embedded;

TEST_CASE("cuda input: rows keep their token, position and segment, and those that fill up none") {
  Sequence first;
  first.blocks = {7, 3};
  Sequence second;
  second.blocks = {5};
  const std::vector<int32_t> a = {10, 11, 12};
  const std::vector<int32_t> b = {20};
  const std::vector<Segment> segments = {{&first, 40, a}, {&second, 0, b}};
  const RowLayout layout = RowLayout::of(segments, 2);
  CHECK(layout.row_of(1, 0) == 4);
  const auto input = cuda::make_input(segments, std::vector<int32_t>{1, 0}, layout, 3);
  CHECK(input.tokens == std::vector<int32_t>{10, 11, 12, 0, 20, 0});
  CHECK(input.positions == std::vector<int32_t>{40, 41, 42, -1, 0, -1});
  CHECK(input.segments == std::vector<int32_t>{0, 0, 0, 0, 1, 0});
  CHECK(input.blocks == std::vector<int32_t>{7, 3, 0, 5, 0, 0});
  REQUIRE(input.parts.size() == 2);
  CHECK(input.parts[0].slot == 1);
  CHECK(input.parts[0].start == 40);
  CHECK(input.parts[0].tokens == 3);
  CHECK(input.parts[1].first_row == 4);
}
