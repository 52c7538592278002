#include <cstring>
#include <string>

#include "flashmla/flashmla.h"
#include "kernels/gate/checks.h"
#include "kernels/gate/execute.h"
#include "kernels/gate/library.h"
#include "kernels/gate/problem.h"
#include "tests/support/catch.h"

namespace flashmla {
namespace {

TEST_CASE("api: the two builds say what they are") {
  CHECK(flashmla_build_info()->abi_version == FLASHMLA_ABI_VERSION);
  CHECK(std::string(flashmla_build_info()->arch) == "cpu");
  CHECK(std::string(flashmla_build_info()->variant) == "native");
  CHECK(std::string(flashmla_build_info()->isa) != "");
  CHECK(std::string(flashmla_build_info()->compiler) != "");
  std::string error;
  const auto baseline = gate::Library::open(FLASHMLA_TEST_BASELINE, error);
  REQUIRE(baseline != nullptr);
  CHECK(std::string(baseline->build().variant) == "padded64");
}

TEST_CASE("api: contexts are created with and without options, and refused for impossible ones") {
  flashmla_context* context = nullptr;
  REQUIRE(flashmla_context_create(nullptr, &context) == FLASHMLA_OK);
  REQUIRE(context != nullptr);
  CHECK(std::string(flashmla_error_message(context)).empty());
  flashmla_context_destroy(context);
  flashmla_context_destroy(nullptr);
  flashmla_options options{};
  options.num_threads = 3;
  REQUIRE(flashmla_context_create(&options, &context) == FLASHMLA_OK);
  flashmla_context_destroy(context);
  options.num_threads = -1;
  CHECK(flashmla_context_create(&options, &context) == FLASHMLA_INVALID_ARGUMENT);
  CHECK(context == nullptr);
  CHECK(flashmla_context_create(&options, nullptr) == FLASHMLA_INVALID_ARGUMENT);
}

TEST_CASE("api: every status has a text") {
  CHECK(std::string(flashmla_status_text(FLASHMLA_OK)) == "ok");
  CHECK(std::string(flashmla_status_text(FLASHMLA_WORKSPACE_TOO_SMALL)) == "workspace too small");
  CHECK(contains(flashmla_error_message(nullptr), "null"));
}

// A valid sparse call that tests spoil.
class Call {
 public:
  Call() : problem_(make()), outputs_(problem_.make_outputs()), params(problem_.sparse_into(outputs_)) {
    REQUIRE(flashmla_context_create(nullptr, &context_) == FLASHMLA_OK);
    size_t bytes = 0;
    REQUIRE(flashmla_sparse_decode_workspace(context_, &params, &bytes) == FLASHMLA_OK);
    workspace_ = std::make_unique<gate::Workspace>(bytes);
    params.workspace = workspace_->data();
    params.workspace_bytes = bytes;
  }
  ~Call() { flashmla_context_destroy(context_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  flashmla_status run() { return flashmla_sparse_decode(context_, &params); }
  std::string message() const { return flashmla_error_message(context_); }

 private:
  static gate::Problem make() {
    gate::Case one;
    one.seed = 1;
    one.extra_topk = 16;
    return gate::Problem(one);
  }
  gate::Problem problem_;
  gate::Outputs outputs_;
  flashmla_context* context_ = nullptr;
  std::unique_ptr<gate::Workspace> workspace_;

 public:
  flashmla_sparse_decode_params params;
};

TEST_CASE("api: a refused call says which argument is wrong, what was found and what was expected") {
  Call call;
  REQUIRE(call.run() == FLASHMLA_OK);
  SECTION("shape") {
    call.params.s_q = 17;
    CHECK(call.run() == FLASHMLA_INVALID_ARGUMENT);
    CHECK(call.message() == "\"s_q\" is 17, expected 1 to 16");
  }
  SECTION("format") {
    const int32_t unknown = 9;
    std::memcpy(&call.params.extra.format, &unknown, sizeof unknown);
    CHECK(call.run() == FLASHMLA_UNSUPPORTED);
    CHECK(call.message() == "\"extra.format\" is 9, which is no known record format");
  }
  SECTION("d_qk") {
    call.params.d_qk = 576;
    CHECK(call.run() == FLASHMLA_INVALID_ARGUMENT);
    CHECK(call.message() == "\"d_qk\" is 576, but the records of \"main\" have 512 dimensions");
  }
  SECTION("index") {
    std::vector<int32_t> indices(256, 0);
    indices[7] = 1 << 20;
    call.params.main.indices = indices.data();
    CHECK(call.run() == FLASHMLA_INVALID_ARGUMENT);
    CHECK(contains(call.message(), "\"main.indices[0, 0, 7]\" is 1048576, expected -1 or a slot below "));
  }
  SECTION("workspace") {
    const size_t needed = call.params.workspace_bytes;
    call.params.workspace_bytes = 100;
    CHECK(call.run() == FLASHMLA_WORKSPACE_TOO_SMALL);
    CHECK(call.message() == "\"workspace_bytes\" is 100, this call needs " + std::to_string(needed));
  }
  SECTION("the first problem is reported in the order layout, shape, range") {
    call.params.workspace_bytes = 0;
    call.params.softmax_scale = -1.0F / 0.0F;
    call.params.num_heads = 0;
    CHECK(call.run() == FLASHMLA_INVALID_ARGUMENT);
    CHECK(contains(call.message(), "num_heads"));
    call.params.num_heads = 8;
    CHECK(call.run() == FLASHMLA_INVALID_ARGUMENT);
    CHECK(contains(call.message(), "softmax_scale"));
    call.params.softmax_scale = 1;
    CHECK(call.run() == FLASHMLA_WORKSPACE_TOO_SMALL);
  }
  SECTION("a success clears the message") {
    call.params.s_q = 0;
    REQUIRE(call.run() == FLASHMLA_INVALID_ARGUMENT);
    REQUIRE_FALSE(call.message().empty());
    call.params.s_q = 1;
    CHECK(call.run() == FLASHMLA_OK);
    CHECK(call.message().empty());
  }
}

TEST_CASE("api: pool sizes at the edge of 64 bits are refused, not wrapped around") {
  Call call;
  call.params.main.num_pages = INT64_MAX;
  CHECK(call.run() == FLASHMLA_INVALID_ARGUMENT);
  CHECK(contains(call.message(), "main.num_pages"));
}

TEST_CASE("api: the workspace grows with the threads and needs no pointer") {
  flashmla_sparse_decode_params params{};
  params.batch = 1;
  params.s_q = 1;
  params.num_heads = 8;
  params.d_qk = 512;
  params.d_v = 512;
  size_t bytes[2] = {};
  for (int i = 0; i < 2; ++i) {
    flashmla_options options{};
    options.num_threads = i + 1;
    flashmla_context* context = nullptr;
    REQUIRE(flashmla_context_create(&options, &context) == FLASHMLA_OK);
    CHECK(flashmla_sparse_decode_workspace(context, &params, &bytes[i]) == FLASHMLA_OK);
    flashmla_context_destroy(context);
  }
  CHECK(bytes[1] == 2 * bytes[0]);
}

}  // namespace
}  // namespace flashmla
