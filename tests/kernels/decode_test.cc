// Properties of decode that hold for every build: the gate judges accuracy, this judges independence.
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/api/layout.h"
#include "kernels/gate/execute.h"
#include "kernels/gate/library.h"
#include "kernels/gate/problem.h"
#include "kernels/oracle/number_formats.h"
#include "tests/support/catch.h"

namespace flashmla::gate {
namespace {

std::unique_ptr<Library> open_library(const char* path) {
  std::string error;
  std::unique_ptr<Library> library = Library::open(path, error);
  INFO(error);
  REQUIRE(library != nullptr);
  return library;
}

Case engine_case() {
  Case one;
  one.name = "engine";
  one.seed = 4;
  one.batch = 3;
  one.s_q = 8;
  one.main_topk = 128;
  one.extra_topk = 200;
  one.selection = Selection::kWindow;
  one.sink = Sink::kFinite;
  one.lengths = true;
  return one;
}

TEST_CASE("decode: the same bytes for any number of threads") {
  const auto library = open_library(FLASHMLA_TEST_LIBRARY);
  const Case one = engine_case();
  const Problem problem(one);
  const Context reference(*library, 1);
  const Execution expected = execute(reference, problem, false);
  REQUIRE(expected.status == FLASHMLA_OK);
  for (const int32_t threads : {2, 3, 5, 16, 40}) {
    CAPTURE(threads);
    const Context context(*library, threads);
    CHECK(same_bytes(execute(context, problem, false).outputs, expected.outputs));
  }
}

TEST_CASE("decode: a head gets the same bytes alone and among others") {
  const auto library = open_library(FLASHMLA_TEST_LIBRARY);
  const bool dense = GENERATE(false, true);
  Case one = engine_case();
  one.batch = 1;
  one.s_q = 2;
  one.num_heads = 13;
  one.dense = dense;
  const Problem problem(one);
  const Context context(*library, 2);
  const Execution together = execute(context, problem, dense);
  REQUIRE(together.status == FLASHMLA_OK);
  Outputs apart = problem.make_outputs();
  for (int32_t h = 0; h < one.num_heads; ++h) {
    Workspace workspace(size_t{64} << 20);
    auto run = [&](auto params, auto decode) {
      params.num_heads = 1;
      params.q += h * params.q_head_stride;
      params.out += h * params.out_head_stride;
      params.lse += h * params.lse_head_stride;
      params.workspace = workspace.data();
      params.workspace_bytes = workspace.bytes();
      return decode(context.get(), &params);
    };
    flashmla_sparse_decode_params sparse = problem.sparse_into(apart);
    if (!dense && sparse.attn_sink != nullptr) sparse.attn_sink += h;
    const flashmla_status status = dense ? run(problem.dense_into(apart), library->functions().dense_decode)
                                         : run(sparse, library->functions().sparse_decode);
    REQUIRE(status == FLASHMLA_OK);
  }
  CHECK(same_bytes(apart, together.outputs));
}

TEST_CASE("decode: every head count gives the bytes of the padded build") {
  const auto library = open_library(FLASHMLA_TEST_LIBRARY);
  const auto padded = open_library(FLASHMLA_TEST_BASELINE);
  const Context context(*library, 2);
  const Context baseline(*padded, 2);
  for (int32_t heads = 1; heads <= FLASHMLA_MAX_HEADS; heads = heads < 20 ? heads + 1 : heads + 9) {
    Case one;
    one.seed = 9;
    one.batch = 1;
    one.main_topk = 70;
    one.num_heads = heads;
    const Problem problem(one);
    CAPTURE(heads);
    CHECK(same_bytes(execute(context, problem, false).outputs, execute(baseline, problem, false).outputs));
  }
}

TEST_CASE("decode: every number of query tokens gives the bytes that each gets as a request of its own") {
  const auto library = open_library(FLASHMLA_TEST_LIBRARY);
  const Context context(*library, 2);
  for (int32_t s_q = 1; s_q <= FLASHMLA_MAX_QUERY_TOKENS; ++s_q) {
    Case one = engine_case();
    one.s_q = s_q;
    one.batch = 1;
    one.lengths = false;
    const Problem problem(one);
    const Execution together = execute(context, problem, false);
    Outputs apart = problem.make_outputs();
    flashmla_sparse_decode_params params = problem.sparse_into(apart);
    params.batch = s_q;
    params.s_q = 1;
    params.q_batch_stride = params.q_token_stride;
    params.out_batch_stride = params.out_token_stride;
    params.lse_batch_stride = params.lse_token_stride;
    params.main.indices_batch_stride = params.main.indices_query_stride;
    params.extra.indices_batch_stride = params.extra.indices_query_stride;
    Workspace workspace(size_t{64} << 20);
    params.workspace = workspace.data();
    params.workspace_bytes = workspace.bytes();
    CAPTURE(s_q);
    REQUIRE(library->functions().sparse_decode(context.get(), &params) == FLASHMLA_OK);
    CHECK(same_bytes(apart, together.outputs));
  }
}

TEST_CASE("decode: the caller's rounding mode does not reach the results and is left as it was") {
  const auto library = open_library(FLASHMLA_TEST_LIBRARY);
  const Context context(*library, 1);
  const Problem problem(engine_case());
  const Execution expected = execute(context, problem, false);
  REQUIRE(std::fesetround(FE_UPWARD) == 0);
  const Execution upward = execute(context, problem, false);
  const int mode = std::fegetround();
  std::fesetround(FE_TONEAREST);
  CHECK(mode == FE_UPWARD);
  CHECK(same_bytes(upward.outputs, expected.outputs));
}

TEST_CASE("decode: a row without a token is 0 with LSE +inf, whatever the sink") {
  const auto library = open_library(FLASHMLA_TEST_LIBRARY);
  const Context context(*library, 2);
  Case one;
  one.invalid = Invalid::kAll;
  one.sink = GENERATE(Sink::kNone, Sink::kMixed, Sink::kPlusInfinity);
  const Problem problem(one);
  const Execution run = execute(context, problem, false);
  REQUIRE(run.status == FLASHMLA_OK);
  for (int32_t b = 0; b < one.batch; ++b) {
    for (int32_t h = 0; h < one.num_heads; ++h) {
      CHECK(run.outputs.lse[static_cast<size_t>(problem.lse_at(b, 0, h))] == std::numeric_limits<float>::infinity());
      for (int32_t d = 0; d < kValueDims; ++d) {
        REQUIRE(run.outputs.out[static_cast<size_t>(problem.out_at(b, 0, h) + d)] == 0);
      }
    }
  }
}

TEST_CASE("decode: NaN in a selected token reaches the requests that select it and no other") {
  const auto library = open_library(FLASHMLA_TEST_LIBRARY);
  const Context context(*library, 2);
  Case one;
  one.batch = 3;
  one.s_q = 2;
  one.spoiler = Spoiler::kNan;
  one.format = GENERATE(FLASHMLA_KV_V4_584, FLASHMLA_KV_V32_656, FLASHMLA_KV_V41_528, FLASHMLA_KV_V41_FP4_288);
  const Problem problem(one);
  const Execution run = execute(context, problem, false);
  REQUIRE(run.status == FLASHMLA_OK);
  for (int32_t b = 0; b < one.batch; ++b) {
    for (int32_t t = 0; t < one.s_q; ++t) {
      const float lse = run.outputs.lse[static_cast<size_t>(problem.lse_at(b, t, 3))];
      const double out = oracle::bf16_value(run.outputs.out[static_cast<size_t>(problem.out_at(b, t, 3))]);
      CAPTURE(b, t, lse, out);
      CHECK(std::isnan(lse) == (b == 0));
      CHECK(std::isnan(out) == (b == 0));
    }
  }
}

TEST_CASE("decode: an empty batch succeeds without any pointer but the pool") {
  const auto library = open_library(FLASHMLA_TEST_LIBRARY);
  const Context context(*library, 1);
  flashmla_sparse_decode_params params{};
  const uint8_t pool[584] = {};
  params.s_q = params.num_heads = 1;
  params.d_qk = params.d_v = 512;
  params.main.pool = pool;
  params.main.num_pages = 1;
  params.main.page_size = 1;
  params.main.page_stride_bytes = 584;
  params.softmax_scale = 1;
  CHECK(library->functions().sparse_decode(context.get(), &params) == FLASHMLA_OK);
}

}  // namespace
}  // namespace flashmla::gate
