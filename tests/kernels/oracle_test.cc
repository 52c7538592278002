// The oracle judges everything else, so it is checked against results that can be written down.
#include "kernels/oracle/oracle.h"

#include <cmath>
#include <limits>
#include <vector>

#include "flashmla/records.h"
#include "kernels/oracle/number_formats.h"
#include "tests/support/catch.h"

namespace flashmla::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Three V4 tokens of constant value 1, 2 and 4 on one page, one head.
struct Setting {
  std::vector<uint8_t> page = std::vector<uint8_t>(3 * 584);
  std::vector<uint16_t> q = std::vector<uint16_t>(512, 0);
  std::vector<int32_t> indices;
  std::vector<float> sink = {0.0F};
  flashmla_sparse_decode_params params{};

  explicit Setting(std::vector<int32_t> selection) : indices(std::move(selection)) {
    for (int32_t token = 0; token < 3; ++token) {
      const std::vector<float> values(512, static_cast<float>(1 << token));
      flashmla_v4_write(page.data(), 3, token, values.data(), values.data() + 448);
    }
    params.batch = params.s_q = params.num_heads = 1;
    params.d_qk = params.d_v = 512;
    params.q = q.data();
    params.main.pool = page.data();
    params.main.num_pages = 1;
    params.main.page_stride_bytes = 3 * 584;
    params.main.page_size = 3;
    params.main.format = FLASHMLA_KV_V4_584;
    params.main.indices = indices.data();
    params.main.topk = static_cast<int32_t>(indices.size());
    params.softmax_scale = 1;
  }
  Row row() const { return sparse_decode(params, 0, 0).front(); }
};

TEST_CASE("oracle: a zero query averages the values, and its LSE is the logarithm of their number") {
  const Row row = Setting({0, 2}).row();
  CHECK(row.out[0] == 2.5);
  CHECK(row.out[511] == 2.5);
  CHECK(std::fabs(row.lse - std::log(2.0)) < 1e-15);
  CHECK(row.score_mass == 0);
}

TEST_CASE("oracle: scores weigh tokens as exp does") {
  Setting setting({0, 1});
  setting.q[5] = flashmla_to_bf16(2.0F);  // scores 2 and 4
  setting.params.softmax_scale = 0.5F;    // 1 and 2
  const Row row = setting.row();
  const double weight = 1 / (1 + std::exp(-1.0));
  CHECK(std::fabs(row.out[7] - (1 * (1 - weight) + 2 * weight)) < 1e-14);
  CHECK(std::fabs(row.lse - std::log(std::exp(1.0) + std::exp(2.0))) < 1e-14);
  CHECK(row.score_mass == 2);
}

TEST_CASE("oracle: -1 and what lies behind topk_length are no tokens, and none at all gives 0 and +inf") {
  CHECK(Setting({-1, 1, -1}).row().out[0] == 2);
  Setting cut({0, 1, 2});
  const int32_t length = 1;
  cut.params.main.topk_length = &length;
  CHECK(cut.row().out[0] == 1);
  const Row none = Setting({-1, -1}).row();
  CHECK(none.out[0] == 0);
  CHECK(none.lse == kInfinity);
}

TEST_CASE("oracle: the sink takes its share of the output and none of the LSE") {
  Setting setting({1});
  setting.params.attn_sink = setting.sink.data();
  CHECK(setting.row().out[0] == 1);  // score 0 and sink 0 share evenly
  CHECK(setting.row().lse == 0);
  setting.sink[0] = std::numeric_limits<float>::infinity();
  CHECK(setting.row().out[0] == 0);
  setting.sink[0] = -std::numeric_limits<float>::infinity();
  CHECK(setting.row().out[0] == 2);
}

TEST_CASE("oracle: both caches are one softmax") {
  Setting setting({0});
  setting.params.extra = setting.params.main;
  const std::vector<int32_t> extra = {2, 2};
  setting.params.extra.indices = extra.data();
  setting.params.extra.topk = 2;
  CHECK(setting.row().out[0] == 3);
  CHECK(std::fabs(setting.row().lse - std::log(3.0)) < 1e-15);
}

TEST_CASE("oracle: causal dense decode hides what comes after a query token") {
  std::vector<uint16_t> kv(4 * 576);
  for (int token = 0; token < 4; ++token) {
    for (int i = 0; i < 576; ++i)
      kv[static_cast<size_t>(576 * token + i)] = flashmla_to_bf16(static_cast<float>(token));
  }
  const std::vector<uint16_t> q(2 * 576, 0);
  const std::vector<int32_t> pages = {0};
  const std::vector<int32_t> lengths = {3};
  flashmla_dense_decode_params params{};
  params.batch = params.num_heads = params.max_pages = 1;
  params.s_q = 2;
  params.d_qk = 576;
  params.d_v = 512;
  params.q = q.data();
  params.q_token_stride = 576;
  params.kv = kv.data();
  params.num_pages = 1;
  params.kv_token_stride = 576;
  params.kv_page_stride = 4 * 576;
  params.page_size = 4;
  params.block_table = pages.data();
  params.seq_lens = lengths.data();
  params.causal = 1;
  params.softmax_scale = 1;
  CHECK(dense_decode(params, 0, 0).front().out[0] == 0.5);
  CHECK(dense_decode(params, 0, 1).front().out[0] == 1);
  params.causal = 0;
  CHECK(dense_decode(params, 0, 0).front().out[0] == 1);
}

TEST_CASE("oracle: small number formats have the values of their definitions") {
  CHECK(e4m3_value(0x7e) == 448);
  CHECK(e4m3_value(0x08) == std::ldexp(1.0, -6));
  CHECK(e4m3_value(0x01) == std::ldexp(1.0, -9));
  CHECK(e4m3_value(0xb8) == -1);
  CHECK(std::isnan(e4m3_value(0x7f)));
  CHECK(std::isnan(e4m3_value(0xff)));
  CHECK(e2m1_value(7) == 6);
  CHECK(e2m1_value(1) == 0.5);
  CHECK(e2m1_value(0xb) == -1.5);
  CHECK(ue8m0_value(127) == 1);
  CHECK(ue8m0_value(0) == std::ldexp(1.0, -127));
  CHECK(std::isnan(ue8m0_value(255)));
}

}  // namespace
}  // namespace flashmla::oracle
