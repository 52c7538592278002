// How a dense call is spread over a device, and which pages the kernels for whole pages can copy.
#include "kernels/cuda/dense_plan.h"

#include <algorithm>
#include <vector>

#include "tests/support/catch.h"

namespace flashmla::cuda {
namespace {

Kernels dense_kernels() {
  Kernels kernels;
  const auto add = [&](int32_t rows, int32_t slices) {
    Kernel kernel{};
    kernel.heads = rows;
    kernel.slices = slices;
    kernels.push_back(kernel);
  };
  add(16, 1), add(16, 4), add(32, 1), add(32, 4), add(64, 1);
  return kernels;
}

std::vector<Occupancy> dense_device(int32_t multiprocessors, int32_t largest) {
  Occupancy occupancy{};
  occupancy.multiprocessors = multiprocessors;
  for (int32_t splits = 1; splits <= largest; ++splits) {
    occupancy.clusters[static_cast<size_t>(splits)] = multiprocessors / splits;
  }
  return std::vector<Occupancy>(5, occupancy);
}

Pool pool_of(int32_t page_size) {
  Pool pool{};
  pool.page_size = Divisor::of(page_size);
  pool.num_slots = int64_t{page_size} * 10;
  pool.row_stride = 1152;
  pool.page_stride = int64_t{1152} * page_size;
  return pool;
}

TEST_CASE("dense plan: a call that fills the device takes the kernel with the fewest rows that are enough") {
  const Kernels kernels = dense_kernels();
  const auto heads_for = [&](int32_t rows) {
    return make_dense_plan(kernels, dense_device(132, 16), {128, rows, 1024}, rows).kernel->heads;
  };
  CHECK(heads_for(1) == 16);
  CHECK(heads_for(16) == 16);
  CHECK(heads_for(17) == 32);
  CHECK(heads_for(33) == 64);
  CHECK(heads_for(2048) == 64);
}

TEST_CASE("dense plan: blocks share values and rows where multiprocessors would be idle, and only there") {
  const Kernels kernels = dense_kernels();
  const auto plan_for = [&](int32_t requests, int32_t rows) {
    return make_dense_plan(kernels, dense_device(132, 16), {requests, rows, 1024}, rows);
  };
  CHECK(plan_for(1, 16).kernel->slices == 4);
  CHECK(plan_for(1, 64).kernel->heads < 64);
  CHECK(plan_for(128, 16).kernel->slices == 1);
  // Half as many rows a block.
  CHECK(plan_for(8, 32).kernel->heads == 16);
  CHECK(plan_for(128, 32).kernel->heads == 32);
  for (const int32_t requests : {1, 2, 8, 32, 128}) CHECK(plan_for(requests, 64).kernel->heads >= 32);
  for (const int32_t requests : {1, 2, 8, 32}) {
    for (const int32_t rows : {16, 32, 64, 128}) {
      CAPTURE(requests, rows);
      const Plan plan = plan_for(requests, rows);
      if (plan.kernel->slices == 1 && plan.kernel->heads >= std::min(rows, 64)) continue;
      CHECK(requests * plan.grid.head_blocks * plan.kernel->slices * plan.grid.parts * plan.grid.splits <= 132);
    }
  }
}

TEST_CASE("dense plan: every plan can run, and its workspace holds what its parts leave") {
  const Kernels kernels = dense_kernels();
  for (const int32_t largest : {1, 4, 16}) {
    const std::vector<Occupancy> occupancies = dense_device(132, largest);
    for (const int32_t requests : {1, 2, 8, 31, 128, 1000}) {
      for (const int32_t rows : {1, 16, 30, 128, 2048}) {
        for (const int64_t tokens : {0, 1, 64, 65, 1000, 32768, 1 << 24}) {
          CAPTURE(largest, requests, rows, tokens);
          const Plan plan = make_dense_plan(kernels, occupancies, {requests, rows, tokens}, rows);
          const Grid& grid = plan.grid;
          CHECK(grid.rows == requests);
          CHECK(grid.head_blocks * plan.kernel->heads >= rows);
          CHECK((grid.head_blocks - 1) * plan.kernel->heads < rows);
          CHECK(grid.splits >= 1);
          CHECK(grid.splits <= largest);
          CHECK(grid.parts >= 1);
          CHECK(grid.parts <= kMaxParts);
          CHECK(int64_t{grid.splits} * grid.parts <= std::max<int64_t>((tokens + 63) / 64, 1));
          CHECK(plan.workspace_bytes == (grid.parts > 1 ? partial_bytes(requests, rows, grid.parts) : 0));
        }
      }
    }
  }
}

TEST_CASE("dense plan: padding adds blocks and changes nothing else") {
  const Kernels kernels = dense_kernels();
  for (const int32_t requests : {1, 32, 128}) {
    const Work work = {requests, 16, 8192};
    const Plan native = make_dense_plan(kernels, dense_device(132, 8), work, 16);
    const Plan padded = make_dense_plan(kernels, dense_device(132, 8), work, 64);
    CHECK(padded.kernel == native.kernel);
    CHECK(padded.grid.splits == native.grid.splits);
    CHECK(padded.grid.parts == native.grid.parts);
    CHECK(padded.grid.head_blocks == 4 * native.grid.head_blocks);
    CHECK(padded.workspace_bytes == native.workspace_bytes);
  }
}

TEST_CASE("dense plan: boxes divide pages, and pages without a box of 16 tokens are left to other kernels") {
  CHECK(box_tokens(pool_of(64)) == 64);
  CHECK(box_tokens(pool_of(256)) == 64);
  CHECK(box_tokens(pool_of(96)) == 32);
  CHECK(box_tokens(pool_of(16)) == 16);
  CHECK(box_tokens(pool_of(80)) == 16);
  CHECK(box_tokens(pool_of(8)) == 0);
  CHECK(box_tokens(pool_of(1)) == 0);
  CHECK(box_tokens(pool_of(65)) == 0);
  Pool none = pool_of(64);
  none.num_slots = 0;
  CHECK(box_tokens(none) == 0);
  Pool far_apart = pool_of(64);
  far_apart.page_stride = int64_t{1} << 40;
  CHECK(box_tokens(far_apart) == 0);
}

}  // namespace
}  // namespace flashmla::cuda
