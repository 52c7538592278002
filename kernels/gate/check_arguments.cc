#include <cmath>
#include <functional>
#include <limits>

#include "kernels/gate/checks.h"
#include "kernels/gate/execute.h"
#include "kernels/gate/problem.h"

namespace flashmla::gate {
namespace {

// A valid call and one change that makes it invalid.
template <typename Params>
struct BadCall {
  const char* name;
  flashmla_status expected;
  std::function<void(Params&)> spoil;
};

using Sparse = flashmla_sparse_decode_params;
using Dense = flashmla_dense_decode_params;

// Indices of the calls below: the selection of the case is 64 wide, so that these fit.
std::vector<int32_t>& indices_with(int32_t bad) {
  static std::vector<int32_t> above(4096, std::numeric_limits<int32_t>::max());
  static std::vector<int32_t> below(4096, -2);
  return bad < 0 ? below : above;
}

template <typename Params>
std::vector<BadCall<Params>> common_bad_calls() {
  constexpr auto kInvalid = FLASHMLA_INVALID_ARGUMENT;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  return {
      {"workspace one byte too small", FLASHMLA_WORKSPACE_TOO_SMALL, [](Params& p) { --p.workspace_bytes; }},
      {"workspace of no bytes", FLASHMLA_WORKSPACE_TOO_SMALL,
       [](Params& p) { p.workspace = nullptr, p.workspace_bytes = 0; }},
      {"workspace null", kInvalid, [](Params& p) { p.workspace = nullptr; }},
      {"workspace misaligned", kInvalid, [](Params& p) { p.workspace = static_cast<uint8_t*>(p.workspace) + 4; }},
      {"q null", kInvalid, [](Params& p) { p.q = nullptr; }},
      {"out null", kInvalid, [](Params& p) { p.out = nullptr; }},
      {"lse null", kInvalid, [](Params& p) { p.lse = nullptr; }},
      {"batch negative", kInvalid, [](Params& p) { p.batch = -1; }},
      {"no query token", kInvalid, [](Params& p) { p.s_q = 0; }},
      {"17 query tokens", kInvalid, [](Params& p) { p.s_q = 17; }},
      {"no head", kInvalid, [](Params& p) { p.num_heads = 0; }},
      {"129 heads", kInvalid, [](Params& p) { p.num_heads = 129; }},
      {"d_qk 500", kInvalid, [](Params& p) { p.d_qk = 500; }},
      {"d_v 256", kInvalid, [](Params& p) { p.d_v = 256; }},
      {"scale NaN", kInvalid, [](Params& p) { p.softmax_scale = kNan; }},
      {"output rows overlap", kInvalid, [](Params& p) { p.out_head_stride = 256; }},
      {"LSE rows overlap", kInvalid, [](Params& p) { p.lse_token_stride = 0; }},
      {"q stride negative", kInvalid, [](Params& p) { p.q_batch_stride = -512; }},
  };
}

std::vector<BadCall<Sparse>> sparse_bad_calls() {
  constexpr auto kInvalid = FLASHMLA_INVALID_ARGUMENT;
  std::vector<BadCall<Sparse>> calls = common_bad_calls<Sparse>();
  static constexpr int32_t kTooLong[2] = {1, 1000};
  static constexpr int32_t kNegative[2] = {1, -1};
  const std::vector<BadCall<Sparse>> more = {
      {"pool null", kInvalid, [](Sparse& p) { p.main.pool = nullptr; }},
      {"indices null", kInvalid, [](Sparse& p) { p.main.indices = nullptr; }},
      {"extra indices null", kInvalid, [](Sparse& p) { p.extra.indices = nullptr; }},
      {"page size 0", kInvalid, [](Sparse& p) { p.main.page_size = 0; }},
      {"page stride below a page", kInvalid, [](Sparse& p) { p.main.page_stride_bytes = 584 * 64 - 1; }},
      {"pages negative", kInvalid, [](Sparse& p) { p.extra.num_pages = -1; }},
      {"topk negative", kInvalid, [](Sparse& p) { p.main.topk = -1; }},
      {"index behind the pool", kInvalid, [](Sparse& p) { p.main.indices = indices_with(1).data(); }},
      {"index -2", kInvalid, [](Sparse& p) { p.extra.indices = indices_with(-2).data(); }},
      {"topk length above topk", kInvalid, [](Sparse& p) { p.main.topk_length = kTooLong; }},
      {"topk length negative", kInvalid, [](Sparse& p) { p.extra.topk_length = kNegative; }},
      {"formats of different d_qk", kInvalid, [](Sparse& p) { p.extra.format = FLASHMLA_KV_V32_656; }},
  };
  calls.insert(calls.end(), more.begin(), more.end());
  return calls;
}

std::vector<BadCall<Dense>> dense_bad_calls() {
  constexpr auto kInvalid = FLASHMLA_INVALID_ARGUMENT;
  std::vector<BadCall<Dense>> calls = common_bad_calls<Dense>();
  static constexpr int32_t kTooLong[2] = {1, 1 << 20};
  static constexpr int32_t kNegative[2] = {1, -1};
  const std::vector<BadCall<Dense>> more = {
      {"kv null", kInvalid, [](Dense& p) { p.kv = nullptr; }},
      {"block table null", kInvalid, [](Dense& p) { p.block_table = nullptr; }},
      {"block outside the pool", kInvalid, [](Dense& p) { p.block_table = indices_with(1).data(); }},
      {"lengths null", kInvalid, [](Dense& p) { p.seq_lens = nullptr; }},
      {"length above the table", kInvalid, [](Dense& p) { p.seq_lens = kTooLong; }},
      {"length negative", kInvalid, [](Dense& p) { p.seq_lens = kNegative; }},
      {"page size 0", kInvalid, [](Dense& p) { p.page_size = 0; }},
      {"token stride below a token", kInvalid, [](Dense& p) { p.kv_token_stride = 100; }},
      {"page stride below a page", kInvalid, [](Dense& p) { p.kv_page_stride = 100; }},
  };
  calls.insert(calls.end(), more.begin(), more.end());
  return calls;
}

// How the two kinds of decode are called.
Sparse params_into(const Problem& problem, Outputs& outputs, Sparse) {
  return problem.sparse_into(outputs);
}
Dense params_into(const Problem& problem, Outputs& outputs, Dense) {
  return problem.dense_into(outputs);
}
auto workspace_function(const Functions& f, Sparse) {
  return f.sparse_decode_workspace;
}
auto workspace_function(const Functions& f, Dense) {
  return f.dense_decode_workspace;
}
auto decode_function(const Functions& f, Sparse) {
  return f.sparse_decode;
}
auto decode_function(const Functions& f, Dense) {
  return f.dense_decode;
}

template <typename Params>
void check_bad_calls(const Context& candidate, const Case& one, const std::vector<BadCall<Params>>& calls, Cell& cell) {
  const Functions& f = candidate.functions();
  const Problem problem(one);
  const Outputs untouched = problem.make_outputs();
  const std::string kind = one.dense ? "dense decode, " : "sparse decode, ";
  auto fail = [&](const char* call, std::string message) {
    cell.failures.push_back({"arguments", kind + call + ": " + std::move(message)});
  };
  for (const BadCall<Params>& call : calls) {
    Outputs outputs = untouched;
    Params params = params_into(problem, outputs, Params{});
    size_t bytes = 0;
    if (workspace_function(f, Params{})(candidate.get(), &params, &bytes) != FLASHMLA_OK) {
      fail(call.name, "the workspace of the valid call is refused");
      continue;
    }
    Workspace workspace(bytes);
    params.workspace = workspace.data();
    params.workspace_bytes = bytes;
    call.spoil(params);
    const flashmla_status status = decode_function(f, Params{})(candidate.get(), &params);
    if (status != call.expected) {
      fail(call.name, std::string("the status is \"") + f.status_text(status) + "\", expected \"" +
                          f.status_text(call.expected) + "\"");
    } else if (*f.error_message(candidate.get()) == '\0') {
      fail(call.name, "it is refused without a message");
    }
    if (!same_bytes(outputs, untouched)) fail(call.name, "the outputs were written");
    if (!workspace.guard_intact()) fail(call.name, "memory behind the workspace was written");
  }
  size_t bytes = 0;
  Params params{};
  if (workspace_function(f, Params{})(candidate.get(), nullptr, &bytes) != FLASHMLA_INVALID_ARGUMENT ||
      workspace_function(f, Params{})(candidate.get(), &params, nullptr) != FLASHMLA_INVALID_ARGUMENT ||
      decode_function(f, Params{})(candidate.get(), nullptr) != FLASHMLA_INVALID_ARGUMENT ||
      decode_function(f, Params{})(nullptr, &params) != FLASHMLA_INVALID_ARGUMENT) {
    fail("null pointers", "they are not refused");
  }
}

}  // namespace

Cell check_arguments(const Context& candidate) {
  Cell cell;
  cell.name = "invalid-arguments";
  Case one;
  one.seed = 1;  // odd: pages without padding between them
  one.s_q = 2;
  one.extra_topk = 64;
  cell.shape = one.shape();
  check_bad_calls(candidate, one, sparse_bad_calls(), cell);
  one.dense = true;
  check_bad_calls(candidate, one, dense_bad_calls(), cell);
  return cell;
}

}  // namespace flashmla::gate
