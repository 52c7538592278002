// A caller's parameters as the CUDA kernels take them.
#include "kernels/cuda/arguments.h"

#include <array>
#include <limits>
#include <vector>

#include "kernels/cuda/call.h"
#include "tests/support/catch.h"

namespace flashmla::cuda {
namespace {

constexpr int32_t kLargest = std::numeric_limits<int32_t>::max();

// As the device does it.
uint32_t quotient(uint32_t number, const Divisor& by) {
  return static_cast<uint32_t>(uint64_t{number} * by.multiplier >> by.shift);
}

bool divides_exactly(int32_t divisor, const std::vector<int64_t>& numbers) {
  const Divisor by = Divisor::of(divisor);
  bool exact = by.divisor == static_cast<uint32_t>(divisor);
  for (const int64_t number : numbers) {
    if (number < 0 || number > kLargest) continue;
    const auto n = static_cast<uint32_t>(number);
    exact = exact && quotient(n, by) == n / by.divisor;
  }
  return exact;
}

// Where a quotient that is off by one would show: around multiples of the divisor, the small and the largest.
std::vector<int64_t> edges_of(int32_t divisor) {
  std::vector<int64_t> edges = {0, 1, 2, kLargest - 1, kLargest};
  const int64_t last = kLargest / divisor;
  for (const int64_t factor : {int64_t{1}, int64_t{2}, int64_t{3}, last / 2, last - 1, last}) {
    for (const int64_t next : {-1, 0, 1}) edges.push_back(factor * divisor + next);
  }
  for (int power = 2; power < 31; ++power) {
    for (const int64_t next : {-1, 0, 1}) edges.push_back((int64_t{1} << power) + next);
  }
  return edges;
}

TEST_CASE("divisor: exact for every small divisor and all small numbers") {
  std::vector<int64_t> small;
  for (int64_t number = 0; number < 2000; ++number) small.push_back(number);
  for (int32_t divisor = 1; divisor <= 5000; ++divisor) {
    CAPTURE(divisor);
    REQUIRE(divides_exactly(divisor, edges_of(divisor)));
    if (divisor <= 300) REQUIRE(divides_exactly(divisor, small));
  }
}

TEST_CASE("divisor: exact for powers of two, their neighbours and the largest") {
  for (int power = 1; power <= 31; ++power) {
    for (const int64_t next : {-1, 0, 1}) {
      const int64_t divisor = (int64_t{1} << power) + next;
      if (divisor > kLargest) continue;
      CAPTURE(divisor);
      REQUIRE(divides_exactly(static_cast<int32_t>(divisor), edges_of(static_cast<int32_t>(divisor))));
    }
  }
  CHECK(quotient(static_cast<uint32_t>(kLargest), Divisor::of(kLargest)) == 1);
  CHECK(quotient(static_cast<uint32_t>(kLargest) - 1, Divisor::of(kLargest)) == 0);
}

TEST_CASE("shards: the blocks of a cluster share all units, each has its own") {
  for (int32_t splits = 1; splits <= kMaxSplits; ++splits) {
    CAPTURE(splits);
    DecodeArguments a{};
    set_shards(a, splits, 4, nullptr);
    CHECK(a.splits.divisor == static_cast<uint32_t>(splits));
    CHECK(a.parts.divisor == 4);
    CHECK(a.shards.divisor == static_cast<uint32_t>(4 * splits));
    CHECK(a.first_unit[0] == 0);
    CHECK(a.first_unit[splits] == kUnits);
    for (int32_t rank = 0; rank < splits; ++rank) {
      const int units = a.first_unit[rank + 1] - a.first_unit[rank];
      CHECK(units >= kUnits / splits);
      CHECK(units <= (kUnits + splits - 1) / splits);  // what a kernel has shared memory for
    }
  }
}

// Where nothing is read: addresses alone count.
template <typename T>
T* at(uintptr_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): only alignment is looked at
  return reinterpret_cast<T*>(address);
}

flashmla_sparse_kv sparse_cache() {
  flashmla_sparse_kv kv{};
  kv.pool = at<void>(0x10000);
  kv.num_pages = 100;
  kv.page_stride_bytes = 64 * 584;
  kv.page_size = 64;
  kv.format = FLASHMLA_KV_V4_584;
  kv.indices = at<int32_t>(0x20000);
  kv.indices_batch_stride = 256;
  kv.indices_query_stride = 128;
  kv.topk = 128;
  return kv;
}

flashmla_sparse_decode_params sparse_call() {
  flashmla_sparse_decode_params params{};
  params.batch = 3;
  params.s_q = 2;
  params.num_heads = 8;
  params.d_qk = 512;
  params.d_v = 512;
  params.q = at<uint16_t>(0x30000);
  params.q_batch_stride = 8192;
  params.q_token_stride = 4096;
  params.q_head_stride = 512;
  params.main = sparse_cache();
  params.softmax_scale = 0.1F;
  params.out = at<uint16_t>(0x40000);
  params.out_batch_stride = 8192;
  params.out_token_stride = 4096;
  params.out_head_stride = 512;
  return params;
}

flashmla_dense_decode_params dense_call() {
  flashmla_dense_decode_params params{};
  params.batch = 3;
  params.s_q = 2;
  params.num_heads = 16;
  params.d_qk = 576;
  params.d_v = 512;
  params.q = at<uint16_t>(0x30000);
  params.q_batch_stride = 32 * 576;
  params.q_token_stride = 16 * 576;
  params.q_head_stride = 576;
  params.kv = at<uint16_t>(0x10000);
  params.num_pages = 50;
  params.kv_page_stride = 64 * 576;
  params.kv_token_stride = 576;
  params.page_size = 64;
  params.max_pages = 7;
  params.causal = 2;
  params.out = at<uint16_t>(0x40000);
  params.out_batch_stride = 16384;
  params.out_token_stride = 8192;
  params.out_head_stride = 512;
  return params;
}

TEST_CASE("arguments: rows of q and out are aligned if their start and all strides are") {
  const auto with = [](auto change) {
    flashmla_sparse_decode_params params = sparse_call();
    change(params);
    const DecodeArguments a = make_arguments(params);
    return std::array<bool, 2>{a.q_aligned, a.out_aligned};
  };
  using Params = flashmla_sparse_decode_params;
  constexpr std::array<bool, 2> kBoth = {true, true}, kOutAlone = {false, true}, kQAlone = {true, false};
  CHECK(with([](Params&) {}) == kBoth);
  CHECK(with([](Params& p) { p.q = at<uint16_t>(0x30008); }) == kOutAlone);
  CHECK(with([](Params& p) { p.q_batch_stride += 4; }) == kOutAlone);
  CHECK(with([](Params& p) { p.q_token_stride += 1; }) == kOutAlone);
  CHECK(with([](Params& p) { p.q_head_stride += 2; }) == kOutAlone);
  CHECK(with([](Params& p) { p.q_head_stride += 8; }) == kBoth);
  CHECK(with([](Params& p) { p.out = at<uint16_t>(0x40002); }) == kQAlone);
  CHECK(with([](Params& p) { p.out_batch_stride += 4; }) == kQAlone);
  CHECK(with([](Params& p) { p.out_token_stride += 1; }) == kQAlone);
  CHECK(with([](Params& p) { p.out_head_stride += 2; }) == kQAlone);
}

TEST_CASE("arguments: a pool is aligned if its start and the page stride are, each pool for itself") {
  flashmla_sparse_decode_params params = sparse_call();
  params.extra = sparse_cache();
  CHECK(make_arguments(params).main.pool.aligned);
  params.main.pool = at<void>(0x10008);
  CHECK_FALSE(make_arguments(params).main.pool.aligned);
  CHECK(make_arguments(params).extra.pool.aligned);
  params.main.pool = at<void>(0x10010);
  params.extra.page_stride_bytes += 8;
  CHECK(make_arguments(params).main.pool.aligned);
  CHECK_FALSE(make_arguments(params).extra.pool.aligned);
}

TEST_CASE("arguments: a dense pool is aligned if its start and both strides are") {
  flashmla_dense_decode_params params = dense_call();
  CHECK(make_arguments(params).main.pool.aligned);
  SECTION("the start is not") {
    params.kv = at<uint16_t>(0x10008);
  }
  SECTION("the stride of pages is not") {
    params.kv_page_stride += 4;
  }
  SECTION("the stride of tokens is not") {
    params.kv_token_stride += 4;
  }
  CHECK_FALSE(make_arguments(params).main.pool.aligned);
}

TEST_CASE("arguments: sparse rows are query tokens, dense rows have the heads of all of them") {
  const DecodeArguments sparse = make_arguments(sparse_call());
  CHECK(sparse.rows_per_request.divisor == 2);
  CHECK(sparse.heads_per_row == 8);
  CHECK(sparse.main.pool.num_slots == 6400);
  CHECK(sparse.main.pool.row_stride == 576);
  CHECK(sparse.main.pool.scale_offset == 64 * 576);
  CHECK(sparse.main.count == 128);
  const DecodeArguments dense = make_arguments(dense_call());
  CHECK(dense.rows_per_request.divisor == 1);
  CHECK(dense.heads_per_row == 32);
  CHECK(dense.causal);
  CHECK(dense.main.pool.num_slots == 3200);
  CHECK(dense.main.pool.row_stride == 1152);  // bytes
  CHECK(dense.main.pool.page_stride == 64 * 1152);
  CHECK(dense.main.count == 7);
}

TEST_CASE("arguments: a cache without tokens selects none, and nothing of it is used") {
  flashmla_sparse_decode_params params = sparse_call();
  params.main.topk = 0;
  for (const Selection& selection : {make_arguments(params).main, make_arguments(params).extra}) {
    CHECK(selection.count == 0);
    CHECK(selection.indices == nullptr);
    CHECK(selection.pool.base == nullptr);
    CHECK(selection.pool.page_size.divisor == 1);
  }
}

TEST_CASE("arguments: the two halves of the scale are closer to scale * log2(e) than one number can be") {
  flashmla_sparse_decode_params params = sparse_call();
  for (const float scale : {0.1F, 0.0441941738F, -3.0F, 1e-30F}) {
    params.softmax_scale = scale;
    const DecodeArguments a = make_arguments(params);
    const double exact = double{scale} * 1.4426950408889634;
    CHECK(a.scale_high == static_cast<float>(exact));
    CHECK(double{a.scale_high} + double{a.scale_low} == Approx(exact).epsilon(1e-13));
  }
  params.softmax_scale = 3e38F;
  CHECK(make_arguments(params).scale_low == 0);  // the product is infinite, and stays that
}

}  // namespace
}  // namespace flashmla::cuda
