// How a call is spread over a device: what must hold for every shape, on devices of several kinds.
#include "kernels/cuda/plan.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "tests/support/catch.h"

namespace flashmla::cuda {
namespace {

constexpr uint32_t bit(int32_t splits) {
  return 1U << splits;
}

constexpr uint32_t kAnySplits = 0x1fffe;

constexpr BlockTime kQuickStart = {
    .start = 5.2, .per_token = 0.036, .per_token_shared = 0.049, .merge = 2.2, .per_split = 0.12};
constexpr BlockTime kQuickTokens = {.start = 15, .per_token = 0.025, .merge = 2.2, .per_split = 0.12};

Kernel kernel(int32_t heads, const BlockTime& time, uint32_t splits) {
  Kernel made{};
  made.heads = heads;
  made.time = time;
  made.splits = splits;
  return made;
}

// Few heads in a block and many, of 16 two kernels; that of 64 merges where the results fit.
Kernels some_kernels() {
  return {kernel(8, kQuickStart, kAnySplits), kernel(16, kQuickStart, kAnySplits),
          kernel(16, kQuickTokens, bit(1) | bit(2) | bit(4) | bit(8)),
          kernel(64, kQuickStart, bit(1) | bit(4) | bit(8) | bit(16))};
}

// A device with this many multiprocessors, whose clusters have at most `largest` blocks.
Occupancy device(int32_t multiprocessors, int32_t largest) {
  Occupancy occupancy{};
  occupancy.multiprocessors = multiprocessors;
  for (int32_t splits = 1; splits <= largest; ++splits) {
    occupancy.clusters[static_cast<size_t>(splits)] = multiprocessors / splits;
  }
  return occupancy;
}

std::vector<Work> many_works() {
  std::vector<Work> works;
  for (const int32_t rows : {1, 2, 3, 7, 16, 64, 100, 132, 500, 4096}) {
    for (const int32_t heads : {1, 8, 9, 16, 17, 64, 65, 128, 2048}) {
      for (const int64_t tokens : {0, 1, 15, 16, 17, 32, 100, 128, 255, 511, 512, 1024, 2048, 5000, 65536, 1 << 20}) {
        works.push_back({rows, heads, tokens});
      }
    }
  }
  return works;
}

std::vector<std::vector<Occupancy>> some_devices() {
  std::vector<std::vector<Occupancy>> devices;
  for (const int32_t multiprocessors : {1, 16, 132, 148}) {
    for (const int32_t largest : {1, 3, 8, 16}) devices.push_back({4, device(multiprocessors, largest)});
  }
  // Kernels that differ in the clusters they can have, and one with gaps.
  devices.push_back({device(132, 16), device(132, 1), device(132, 8), device(132, 2)});
  Occupancy gaps = device(132, 16);
  for (const size_t splits : {2, 4, 8, 16}) gaps.clusters[splits] = 0;
  devices.push_back({4, gaps});
  // Of no real device, but it tempts to split what has too few tokens: single blocks run one at a time.
  Occupancy tempting = device(132, 16);
  for (size_t splits = 1; splits <= kMaxSplits; ++splits) tempting.clusters[splits] = splits == 1 ? 1 : 132;
  devices.push_back({4, tempting});
  return devices;
}

// Calls check(plan, occupancy of its kernel, work) for every work on every device.
template <typename Check>
void for_each_plan(const Check& check) {
  const Kernels kernels = some_kernels();
  for (const auto& occupancies : some_devices()) {
    for (const Work& work : many_works()) {
      const Plan plan = make_plan(kernels, occupancies, work, work.heads);
      CAPTURE(occupancies[0].multiprocessors, work.rows, work.heads, work.tokens, plan.grid.splits, plan.grid.parts);
      const auto index = static_cast<size_t>(plan.kernel - kernels.data());
      REQUIRE(index < kernels.size());
      check(plan, occupancies[index], work);
    }
  }
}

TEST_CASE("plan: the kernel can merge what the clusters share, and the device can run them") {
  for_each_plan([](const Plan& plan, const Occupancy& occupancy, const Work&) {
    REQUIRE(plan.grid.splits >= 1);
    REQUIRE(plan.grid.splits <= kMaxSplits);
    REQUIRE((plan.kernel->splits & bit(plan.grid.splits)) != 0);
    REQUIRE(occupancy.clusters[static_cast<size_t>(plan.grid.splits)] > 0);
  });
}

TEST_CASE("plan: no block is without tokens, and parts are worth a second kernel") {
  for_each_plan([](const Plan& plan, const Occupancy&, const Work& work) {
    const int64_t shards = int64_t{plan.grid.splits} * plan.grid.parts;
    REQUIRE(plan.grid.parts >= 1);
    REQUIRE((shards == 1 || shards <= (work.tokens + 15) / 16));
    REQUIRE((plan.grid.parts == 1 || shards <= (work.tokens + 255) / 256));
  });
}

TEST_CASE("plan: blocks have the least heads that are enough, or of more than 16 heads 16 as well") {
  for_each_plan([](const Plan& plan, const Occupancy&, const Work& work) {
    REQUIRE(plan.grid.rows == work.rows);
    if (work.heads > 16) {
      REQUIRE((plan.kernel->heads == 64 || plan.kernel->heads == 16));
    } else {
      REQUIRE(plan.kernel->heads == (work.heads <= 8 ? 8 : 16));
    }
    REQUIRE(plan.grid.head_blocks == (work.heads + plan.kernel->heads - 1) / plan.kernel->heads);
  });
}

TEST_CASE("plan: of kernels with the same heads, few tokens go to one and many to the other") {
  const Kernels kernels = some_kernels();
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  CHECK(make_plan(kernels, occupancies, {132, 16, 128}, 16).kernel == &kernels[1]);
  CHECK(make_plan(kernels, occupancies, {132, 16, 8192}, 16).kernel == &kernels[2]);
}

TEST_CASE("plan: 64 heads go to several smaller blocks where rows are few, and to one where there are many") {
  constexpr BlockTime kSlowStart = {.start = 22, .per_token = 0.052, .merge = 2.2, .per_split = 0.12};
  const Kernels kernels = {kernel(8, kQuickStart, kAnySplits), kernel(16, kSlowStart, kAnySplits),
                           kernel(32, kQuickStart, kAnySplits), kernel(64, kSlowStart, kAnySplits)};
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  const Plan few = make_plan(kernels, occupancies, {1, 64, 640}, 64);
  CHECK(few.kernel == &kernels[2]);
  CHECK(few.grid.head_blocks == 2);
  const Kernels quick = {kernel(8, kQuickStart, kAnySplits), kernel(16, kQuickStart, kAnySplits),
                         kernel(64, kSlowStart, kAnySplits)};
  const Plan fewer = make_plan(quick, {occupancies.begin(), occupancies.begin() + 3}, {1, 64, 640}, 64);
  CHECK(fewer.kernel == &quick[1]);
  CHECK(fewer.grid.head_blocks == 4);
  const Plan many = make_plan(kernels, occupancies, {132, 64, 2048}, 64);
  CHECK(many.kernel == &kernels[3]);
  CHECK(many.grid.head_blocks == 1);
  CHECK(make_plan(kernels, occupancies, {1, 32, 640}, 64).kernel == &kernels[2]);
}

TEST_CASE("plan: a kernel for few tokens gets no more than it has room for, and any of those that suit") {
  constexpr BlockTime kLittle = {.start = 1, .per_token = 0.01, .merge = 0.5, .per_split = 0.01};
  Kernels kernels = {kernel(8, kQuickStart, kAnySplits), kernel(8, kLittle, kAnySplits),
                     kernel(64, kQuickTokens, kAnySplits)};
  kernels[1].sizes = {64};
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  for (const int64_t tokens : {0, 1, 64, 640, 1024}) {
    CAPTURE(tokens);
    const Plan few = make_plan(kernels, occupancies, {1, 8, tokens}, 8);
    CHECK(few.kernel == &kernels[1]);
    CHECK(tokens <= int64_t{64} * few.grid.splits);
    // Blocks of 8 heads each are better than one that starts slowly.
    const Plan many_heads = make_plan(kernels, occupancies, {1, 64, tokens}, 64);
    CHECK(many_heads.kernel == &kernels[1]);
    CHECK(many_heads.grid.head_blocks == 8);
  }
  CHECK(make_plan(kernels, occupancies, {1, 8, 1025}, 8).kernel == &kernels[0]);
  CHECK(make_plan(kernels, occupancies, {1, 64, 1025}, 64).kernel == &kernels[2]);
}

TEST_CASE("plan: there is a workspace if and only if clusters share a row") {
  bool some_share = false;
  for_each_plan([&](const Plan& plan, const Occupancy&, const Work& work) {
    const size_t floats = plan.grid.parts == 1 ? 0 : size_t{514} * static_cast<size_t>(work.rows * plan.grid.parts);
    REQUIRE(plan.workspace_bytes == floats * 4 * static_cast<size_t>(work.heads));
    some_share = some_share || plan.grid.parts > 1;
  });
  CHECK(some_share);
}

TEST_CASE("plan: padded heads change the number of blocks and nothing else") {
  const Kernels kernels = some_kernels();
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  for (const Work& work : many_works()) {
    CAPTURE(work.rows, work.heads, work.tokens);
    const Plan plain = make_plan(kernels, occupancies, work, work.heads);
    const int32_t padded_heads = (work.heads + 63) / 64 * 64;
    const Plan padded = make_plan(kernels, occupancies, work, padded_heads);
    REQUIRE(padded.kernel == plain.kernel);
    REQUIRE(padded.grid.rows == plain.grid.rows);
    REQUIRE(padded.grid.splits == plain.grid.splits);
    REQUIRE(padded.grid.parts == plain.grid.parts);
    REQUIRE(padded.workspace_bytes == plain.workspace_bytes);
    REQUIRE(padded.grid.head_blocks == padded_heads / plain.kernel->heads);
  }
}

TEST_CASE("plan: the same work on the same device is spread in the same way") {
  const Kernels kernels = some_kernels();
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  const auto parts_of = [&](const Work& work) {
    const Plan plan = make_plan(kernels, occupancies, work, work.heads);
    return std::make_tuple(plan.kernel, plan.grid.rows, plan.grid.head_blocks, plan.grid.splits, plan.grid.parts,
                           plan.workspace_bytes);
  };
  const std::vector<Work> works = many_works();
  std::vector<decltype(parts_of(works[0]))> forwards, backwards;
  for (auto work = works.begin(); work != works.end(); ++work) forwards.push_back(parts_of(*work));
  for (auto work = works.rbegin(); work != works.rend(); ++work) backwards.push_back(parts_of(*work));
  std::reverse(backwards.begin(), backwards.end());
  CHECK(forwards == backwards);
}

TEST_CASE("plan: one long row is spread over the device, rows that fill the device are not split") {
  const Kernels kernels = some_kernels();
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  const Grid one = make_plan(kernels, occupancies, {1, 8, 65536}, 8).grid;
  CHECK(one.splits * one.parts >= 64);
  const Grid full = make_plan(kernels, occupancies, {13200, 8, 128}, 8).grid;
  CHECK(full.splits == 1);
  CHECK(full.parts == 1);
}

TEST_CASE("plan: rows that fill the device have no parts, long rows that do not have some") {
  const Kernels kernels = some_kernels();
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 4));
  CHECK(make_plan(kernels, occupancies, {2, 8, 65536}, 8).grid.parts > 1);
  for (const int32_t rows : {133, 192, 264, 400}) {
    CHECK(make_plan(kernels, occupancies, {rows, 8, 65536}, 8).grid.parts == 1);
  }
}

TEST_CASE("plan: a call that is one of two for a row leaves parts, whatever its tokens and rows") {
  const Kernels kernels = some_kernels();
  for (const std::vector<Occupancy>& occupancies : some_devices()) {
    for (const Work& work : many_works()) {
      const Plan plan = make_plan(kernels, occupancies, work, work.heads, 2);
      REQUIRE(plan.grid.parts >= 2);
      REQUIRE(plan.grid.parts % 2 == 0);
      REQUIRE(plan.workspace_bytes == partial_bytes(work.rows, work.heads, plan.grid.parts));
      REQUIRE(plan.grid.clusters == work.rows * plan.grid.parts);
    }
  }
}

TEST_CASE("plan: a block's last tile counts as a whole one") {
  Kernels kernels = {kernel(8, {.start = 4, .per_token = 0.03, .merge = 1, .per_split = 0.1}, bit(5) | bit(6))};
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  const Work work{16, 8, 1152};  // 231 tokens in 5 blocks, 192 in 6
  CHECK(make_plan(kernels, occupancies, work, 8).grid.splits == 6);
  kernels[0].step_tokens = 128;
  CHECK(make_plan(kernels, occupancies, work, 8).grid.splits == 5);
}

TEST_CASE("plan: tokens count as the next number that there is code for") {
  constexpr BlockTime kSteep = {.start = 4, .per_token = 0.03, .merge = 1, .per_split = 0.1};
  Kernels kernels = {kernel(8, kSteep, bit(6) | bit(8))};
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  const auto splits_of = [&](int64_t tokens) { return make_plan(kernels, occupancies, {8, 8, tokens}, 8).grid.splits; };
  kernels[0].sizes = {80, 96, 128, 160};
  CHECK(splits_of(640) == 8);  // 80 in 8 blocks, 107 in 6
  CHECK(splits_of(600) == 8);  // 75, 100
  CHECK(splits_of(500) == 8);  // 63, 84
  CHECK(splits_of(480) == 6);  // 60, 80: both count as 80
  kernels[0].sizes = {128, 160};
  CHECK(splits_of(640) == 6);
}

TEST_CASE("plan: where tokens count the same, the block with fewer of them to copy is preferred") {
  BlockTime time = {.start = 4, .per_token = 0.03, .merge = 1};
  Kernels kernels = {kernel(8, time, bit(15) | bit(16))};
  kernels[0].sizes = {48};
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  const Work work{1, 8, 640};  // 43 in 15 blocks, 40 in 16
  CHECK(make_plan(kernels, occupancies, work, 8).grid.splits == 15);
  kernels[0].time.per_copied = 0.003;
  CHECK(make_plan(kernels, occupancies, work, 8).grid.splits == 16);
}

TEST_CASE("plan: clusters that leave others room are preferred, and those of an even number of blocks") {
  BlockTime time = {.start = 4, .per_token = 0.001, .merge = 1};
  Kernels kernels = {kernel(8, time, bit(4) | bit(7) | bit(8))};
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  const Work work{16, 8, 640};
  CHECK(make_plan(kernels, occupancies, work, 8).grid.splits == 8);
  kernels[0].time.crowded = 1;  // 16 of 16 clusters of 8, of 18 of 7, of 33 of 4
  CHECK(make_plan(kernels, occupancies, work, 8).grid.splits == 4);
  kernels[0].time.crowded = 0;
  kernels[0].splits = bit(7) | bit(4);
  CHECK(make_plan(kernels, occupancies, work, 8).grid.splits == 7);
  kernels[0].time.odd = 0.15;
  CHECK(make_plan(kernels, occupancies, work, 8).grid.splits == 4);
}

TEST_CASE("plan: blocks that take rows in turn are no more than run at the same time") {
  Kernels kernels = {kernel(8, kQuickTokens, kAnySplits)};
  kernels[0].takes_turns = true;
  kernels[0].time.again = 1;
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  CHECK(make_plan(kernels, occupancies, {100, 8, 640}, 8).grid.clusters == 100);
  CHECK(make_plan(kernels, occupancies, {1024, 8, 640}, 8).grid.clusters == 132);
  // Two blocks share a row's heads.
  CHECK(make_plan(kernels, occupancies, {1024, 16, 640}, 16).grid.clusters == 66);
  // Rows that several blocks share are launched each.
  const Plan split = make_plan(kernels, occupancies, {4, 8, 8192}, 8);
  CHECK(split.grid.splits * split.grid.parts > 1);
  CHECK(split.grid.clusters == 4 * split.grid.parts);
}

TEST_CASE("plan: where further rows cost little, blocks that take turns are preferred for many rows") {
  Kernels kernels = {kernel(8, kQuickStart, kAnySplits), kernel(8, kQuickTokens, kAnySplits)};
  kernels[0].time.per_token_shared = 0;
  kernels[1].takes_turns = true;
  const std::vector<Occupancy> occupancies(kernels.size(), device(132, 16));
  CHECK(make_plan(kernels, occupancies, {132, 8, 640}, 8).kernel == &kernels[0]);
  CHECK(make_plan(kernels, occupancies, {1320, 8, 640}, 8).kernel == &kernels[1]);
}

}  // namespace
}  // namespace flashmla::cuda
