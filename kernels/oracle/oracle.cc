#include "kernels/oracle/oracle.h"

#include <algorithm>
#include <cmath>

#include "kernels/oracle/number_formats.h"

namespace flashmla::oracle {
namespace {

constexpr int32_t kValueDims = 512;

template <typename T>
T load(const uint8_t* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

using Tokens = std::vector<std::vector<double>>;

Row attend(const std::vector<double>& q, const Tokens& keys, double scale, const float* sink) {
  Row row;
  row.out.assign(kValueDims, 0.0);
  row.abs_out.assign(kValueDims, 0.0);
  row.small_out.assign(kValueDims, 0.0);
  row.lse = std::numeric_limits<double>::infinity();
  if (keys.empty()) return row;
  std::vector<double> scores;
  for (const std::vector<double>& key : keys) {
    double score = 0;
    double mass = 0;
    for (size_t i = 0; i < q.size(); ++i) {
      score += q[i] * key[i];
      mass += std::fabs(q[i] * key[i]);
    }
    scores.push_back(scale * score);
    if (!std::isfinite(mass)) continue;  // an infinity among the numbers: no weight at all, or no result
    row.score_mass = std::max(row.score_mass, std::fabs(scale) * mass);
    row.score_peak = std::max(row.score_peak, std::fabs(scale * score));
  }
  double maximum = -std::numeric_limits<double>::infinity();
  for (const double score : scores) maximum = std::fmax(maximum, score);
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - maximum);
  row.lse = maximum + std::log(sum);
  const double denominator = sum + (sink != nullptr ? std::exp(*sink - maximum) : 0.0);
  for (size_t t = 0; t < keys.size(); ++t) {
    const double weight = std::exp(scores[t] - maximum) / denominator;
    const double small = std::min(weight, kSmallWeight);
    for (size_t i = 0; i < kValueDims; ++i) {
      row.out[i] += weight * keys[t][i];
      row.abs_out[i] += weight * std::fabs(keys[t][i]);
      row.small_out[i] += small * std::fabs(keys[t][i]);
    }
  }
  return row;
}

template <typename Params>
std::vector<Row> attend_heads(const Params& params, const Tokens& keys, int32_t batch, int32_t token,
                              const float* sinks) {
  std::vector<Row> rows;
  for (int32_t head = 0; head < params.num_heads; ++head) {
    const uint16_t* q =
        params.q + batch * params.q_batch_stride + token * params.q_token_stride + head * params.q_head_stride;
    std::vector<double> query;
    query.reserve(static_cast<size_t>(params.d_qk));
    for (int32_t i = 0; i < params.d_qk; ++i) query.push_back(bf16_value(q[i]));
    rows.push_back(attend(query, keys, params.softmax_scale, sinks != nullptr ? sinks + head : nullptr));
  }
  return rows;
}

void append_selection(const flashmla_sparse_kv& kv, int32_t batch, int32_t token, Tokens& tokens) {
  if (kv.pool == nullptr || kv.topk == 0) return;
  const int32_t* indices = kv.indices + batch * kv.indices_batch_stride + token * kv.indices_query_stride;
  const int32_t count = kv.topk_length != nullptr ? kv.topk_length[batch] : kv.topk;
  const int64_t slots = kv.num_pages * kv.page_size;
  for (int32_t i = 0; i < count; ++i) {
    if (indices[i] >= 0 && indices[i] < slots) tokens.push_back(sparse_token(kv, indices[i]));
  }
}

}  // namespace

std::vector<double> sparse_token(const flashmla_sparse_kv& kv, int32_t slot) {
  const int64_t page_size = kv.page_size;
  const int64_t offset = slot % page_size;
  const uint8_t* page = static_cast<const uint8_t*>(kv.pool) + slot / page_size * kv.page_stride_bytes;
  std::vector<double> values;
  switch (kv.format) {
    case FLASHMLA_KV_V4_584: {
      const uint8_t* data = page + offset * 576;
      const uint8_t* scales = page + page_size * 576 + offset * 8;
      for (int i = 0; i < 448; ++i) values.push_back(e4m3_value(data[i]) * ue8m0_value(scales[i / 64]));
      for (int i = 0; i < 64; ++i) values.push_back(bf16_value(load<uint16_t>(data + 448 + 2 * i)));
      break;
    }
    case FLASHMLA_KV_V32_656: {
      const uint8_t* data = page + offset * 656;
      for (int i = 0; i < 512; ++i) {
        values.push_back(e4m3_value(data[i]) * double{load<float>(data + 512 + 4 * (i / 128))});
      }
      for (int i = 0; i < 64; ++i) values.push_back(bf16_value(load<uint16_t>(data + 528 + 2 * i)));
      break;
    }
    case FLASHMLA_KV_V41_528: {
      const uint8_t* data = page + offset * 512;
      const uint8_t* scales = page + page_size * 512 + offset * 16;
      for (int i = 0; i < 512; ++i) values.push_back(e4m3_value(data[i]) * ue8m0_value(scales[i / 32]));
      break;
    }
    case FLASHMLA_KV_V41_FP4_288: {
      const uint8_t* data = page + offset * 256;
      const uint8_t* scales = page + page_size * 256 + offset * 32;
      for (int i = 0; i < 512; ++i) {
        const int code = i % 2 == 0 ? data[i / 2] & 15 : data[i / 2] >> 4;
        values.push_back(e2m1_value(static_cast<uint8_t>(code)) * e4m3_value(scales[i / 16]));
      }
      break;
    }
  }
  return values;
}

std::vector<Row> sparse_decode(const flashmla_sparse_decode_params& params, int32_t batch, int32_t token) {
  Tokens tokens;
  append_selection(params.main, batch, token, tokens);
  append_selection(params.extra, batch, token, tokens);
  return attend_heads(params, tokens, batch, token, params.attn_sink);
}

std::vector<Row> dense_decode(const flashmla_dense_decode_params& params, int32_t batch, int32_t token) {
  const int64_t hidden = params.causal != 0 ? params.s_q - 1 - token : 0;
  const int64_t visible = params.seq_lens[batch] - hidden;
  Tokens tokens;
  for (int64_t position = 0; position < visible; ++position) {
    const int64_t page = params.block_table[batch * params.block_table_stride + position / params.page_size];
    const uint16_t* stored =
        params.kv + page * params.kv_page_stride + position % params.page_size * params.kv_token_stride;
    std::vector<double> values;
    values.reserve(static_cast<size_t>(params.d_qk));
    for (int32_t i = 0; i < params.d_qk; ++i) values.push_back(bf16_value(stored[i]));
    tokens.push_back(std::move(values));
  }
  return attend_heads(params, tokens, batch, token, nullptr);
}

}  // namespace flashmla::oracle
