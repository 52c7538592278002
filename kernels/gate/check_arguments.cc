#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>

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
  bool by_content = false;  // only what a pointer points to is wrong: a device build does not look
};

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
      {"index behind the pool", kInvalid, [](Sparse& p) { p.main.indices = indices_with(1).data(); }, true},
      {"index -2", kInvalid, [](Sparse& p) { p.extra.indices = indices_with(-2).data(); }, true},
      {"topk length above topk", kInvalid, [](Sparse& p) { p.main.topk_length = kTooLong; }, true},
      {"topk length negative", kInvalid, [](Sparse& p) { p.extra.topk_length = kNegative; }, true},
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
      {"block outside the pool", kInvalid, [](Dense& p) { p.block_table = indices_with(1).data(); }, true},
      {"lengths null", kInvalid, [](Dense& p) { p.seq_lens = nullptr; }},
      {"length above the table", kInvalid, [](Dense& p) { p.seq_lens = kTooLong; }, true},
      {"length negative", kInvalid, [](Dense& p) { p.seq_lens = kNegative; }, true},
      {"page size 0", kInvalid, [](Dense& p) { p.page_size = 0; }},
      {"token stride below a token", kInvalid, [](Dense& p) { p.kv_token_stride = 100; }},
      {"page stride below a page", kInvalid, [](Dense& p) { p.kv_page_stride = 100; }},
  };
  calls.insert(calls.end(), more.begin(), more.end());
  return calls;
}

Change change_of(const BadCall<Sparse>& call) {
  return {call.spoil, {}};
}
Change change_of(const BadCall<Dense>& call) {
  return {{}, call.spoil};
}

// What the gate does with the calls of one kind.
class Trial {
 public:
  Trial(const Subjects& subjects, const Case& one, Cell& cell)
      : subjects_(subjects), kind_(one.dense ? "dense decode, " : "sparse decode, "), problem_(one), cell_(cell) {
    if (subjects.accelerator == nullptr) {
      placement_ = std::make_unique<HostPlacement>(problem_, one.dense);
      return;
    }
    auto placed = DevicePlacement::create(*subjects.accelerator, problem_, one.dense);
    if (placed) {
      placement_ = std::move(*placed);
    } else {
      cell.fail("device", placed.message());
    }
  }

  template <typename Params>
  void make(const std::vector<BadCall<Params>>& calls) {
    if (placement_ == nullptr) return;
    Outputs outputs = problem_.make_outputs();
    const Params valid = params_into(problem_, outputs, Params{});
    size_t bytes = 0;
    if (query_workspace(subjects_.candidate, &valid, &bytes) != FLASHMLA_OK) {
      fail("workspace", "that of a valid call is refused");
      return;
    }
    for (const BadCall<Params>& call : calls) {
      const bool harmless = bytes == 0 && std::string_view(call.name).substr(0, 9) == "workspace";
      const bool unseen = call.by_content && subjects_.accelerator != nullptr;
      if (!harmless && !unseen) make(call);
    }
    make_null_calls<Params>();
  }

 private:
  template <typename Params>
  void make(const BadCall<Params>& call) {
    const Context& candidate = subjects_.candidate;
    const Execution execution = placement_->run(candidate, change_of(call));
    if (execution.status != call.expected) {
      const Functions& f = candidate.functions();
      fail(call.name, std::string("the status is \"") + f.status_text(execution.status) + "\", expected \"" +
                          f.status_text(call.expected) + "\"");
    } else if (*candidate.message() == '\0') {
      fail(call.name, "it is refused without a message");
    }
    if (!same_bytes(execution.outputs, problem_.make_outputs())) fail(call.name, "the outputs were written");
    if (!execution.workspace_kept) fail(call.name, "memory behind the workspace was written");
  }

  template <typename Params>
  void make_null_calls() {
    const Context& candidate = subjects_.candidate;
    const Params params{};
    const auto* none = static_cast<const Params*>(nullptr);
    size_t bytes = 0;
    if (query_workspace(candidate, none, &bytes) != FLASHMLA_INVALID_ARGUMENT ||
        query_workspace(candidate, &params, nullptr) != FLASHMLA_INVALID_ARGUMENT ||
        decode(candidate, none) != FLASHMLA_INVALID_ARGUMENT ||
        decode_function(candidate.functions(), params)(nullptr, &params) != FLASHMLA_INVALID_ARGUMENT) {
      fail("null pointers", "they are not refused");
    }
  }

  void fail(const char* call, const std::string& message) { cell_.fail("arguments", kind_ + call + ": " + message); }

  const Subjects& subjects_;
  std::string kind_;
  Problem problem_;
  std::unique_ptr<Placement> placement_;
  Cell& cell_;
};

}  // namespace

Cell check_arguments(const Subjects& subjects) {
  Cell cell;
  cell.name = "invalid-arguments";
  Case one;
  one.seed = 1;  // odd: pages without padding between them
  one.s_q = 2;
  one.extra_topk = 64;
  cell.shape = one.shape();
  Trial(subjects, one, cell).make(sparse_bad_calls());
  one.dense = true;
  Trial(subjects, one, cell).make(dense_bad_calls());
  return cell;
}

}  // namespace flashmla::gate
