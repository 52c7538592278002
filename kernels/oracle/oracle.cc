#include "kernels/oracle/oracle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>

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

std::array<double, 256> values_of_codes(double (*value)(uint8_t)) {
  std::array<double, 256> values;
  for (size_t code = 0; code < values.size(); ++code) values[code] = value(static_cast<uint8_t>(code));
  return values;
}

using Tokens = std::vector<std::vector<double>>;

// Tokens are taken four at a time, then one by one: sums that do not wait for each other, each in the order of its own.
template <typename Call>
void in_groups(size_t tokens, const Call& call) {
  constexpr size_t kAtOnce = 4;
  size_t t = 0;
  for (; t + kAtOnce <= tokens; t += kAtOnce) call(std::integral_constant<size_t, kAtOnce>(), t);
  for (; t < tokens; ++t) call(std::integral_constant<size_t, 1>(), t);
}

template <size_t N>
std::array<const double*, N> pointers(const std::vector<double>* tokens) {
  std::array<const double*, N> all;
  for (size_t t = 0; t < N; ++t) all[t] = tokens[t].data();
  return all;
}

struct Score {
  double sum = 0;
  double mass = 0;  // sum of magnitudes
};

template <size_t N>
void score(const std::vector<double>& q, const std::vector<double>* keys, Score* scores) {
  const auto key = pointers<N>(keys);
  std::array<Score, N> sums;
  const double* query = q.data();
  for (size_t i = 0; i < q.size(); ++i) {
    for (size_t t = 0; t < N; ++t) {
      const double product = query[i] * key[t][i];
      sums[t].sum += product;
      sums[t].mass += std::fabs(product);
    }
  }
  std::copy(sums.begin(), sums.end(), scores);
}

template <size_t N>
void add_values(const double* weights, const std::vector<double>* values, Row& row) {
  const auto value = pointers<N>(values);
  double* outs = row.out.data();
  double* abs_outs = row.abs_out.data();
  double* small_outs = row.small_out.data();
  for (size_t i = 0; i < kValueDims; ++i) {
    double out = outs[i];
    double abs_out = abs_outs[i];
    double small_out = small_outs[i];
    for (size_t t = 0; t < N; ++t) {
      const double magnitude = std::fabs(value[t][i]);
      out += weights[t] * value[t][i];
      abs_out += weights[t] * magnitude;
      small_out += std::min(weights[t], kSmallWeight) * magnitude;
    }
    outs[i] = out;
    abs_outs[i] = abs_out;
    small_outs[i] = small_out;
  }
}

Row attend(const std::vector<double>& q, const Tokens& keys, double scale, const float* sink) {
  Row row;
  row.out.assign(kValueDims, 0.0);
  row.abs_out.assign(kValueDims, 0.0);
  row.small_out.assign(kValueDims, 0.0);
  row.lse = std::numeric_limits<double>::infinity();
  if (keys.empty()) return row;
  std::vector<Score> scores(keys.size());
  in_groups(keys.size(), [&](auto n, size_t t) { score<n()>(q, &keys[t], &scores[t]); });
  double maximum = -std::numeric_limits<double>::infinity();
  for (Score& s : scores) {
    s.sum *= scale;
    maximum = std::fmax(maximum, s.sum);
    if (!std::isfinite(s.mass)) continue;  // an infinity among the numbers: no weight at all, or no result
    row.score_mass = std::max(row.score_mass, std::fabs(scale) * s.mass);
    row.score_peak = std::max(row.score_peak, std::fabs(s.sum));
  }
  std::vector<double> weights;
  weights.reserve(keys.size());
  double sum = 0;
  for (const Score& s : scores) sum += weights.emplace_back(std::exp(s.sum - maximum));
  row.lse = maximum + std::log(sum);
  const double denominator = sum + (sink != nullptr ? std::exp(*sink - maximum) : 0.0);
  for (double& weight : weights) weight /= denominator;
  in_groups(keys.size(), [&](auto n, size_t t) { add_values<n()>(&weights[t], &keys[t], row); });
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
  static const auto e4m3 = values_of_codes(e4m3_value);
  static const auto ue8m0 = values_of_codes(ue8m0_value);
  std::vector<double> values;
  values.reserve(576);
  switch (kv.format) {
    case FLASHMLA_KV_V4_584: {
      const uint8_t* data = page + offset * 576;
      const uint8_t* scales = page + page_size * 576 + offset * 8;
      for (int i = 0; i < 448; ++i) values.push_back(e4m3[data[i]] * ue8m0[scales[i / 64]]);
      for (int i = 0; i < 64; ++i) values.push_back(bf16_value(load<uint16_t>(data + 448 + 2 * i)));
      break;
    }
    case FLASHMLA_KV_V32_656: {
      const uint8_t* data = page + offset * 656;
      for (int i = 0; i < 512; ++i) {
        values.push_back(e4m3[data[i]] * double{load<float>(data + 512 + 4 * (i / 128))});
      }
      for (int i = 0; i < 64; ++i) values.push_back(bf16_value(load<uint16_t>(data + 528 + 2 * i)));
      break;
    }
    case FLASHMLA_KV_V41_528: {
      const uint8_t* data = page + offset * 512;
      const uint8_t* scales = page + page_size * 512 + offset * 16;
      for (int i = 0; i < 512; ++i) values.push_back(e4m3[data[i]] * ue8m0[scales[i / 32]]);
      break;
    }
    case FLASHMLA_KV_V41_FP4_288: {
      const uint8_t* data = page + offset * 256;
      const uint8_t* scales = page + page_size * 256 + offset * 32;
      for (int i = 0; i < 512; ++i) {
        const int code = i % 2 == 0 ? data[i / 2] & 15 : data[i / 2] >> 4;
        values.push_back(e2m1_value(static_cast<uint8_t>(code)) * e4m3[scales[i / 16]]);
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
