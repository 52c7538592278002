#include "orchestrator/engine/embedded/sampling.h"

#include <array>
#include <cmath>
#include <vector>

#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::engine::embedded;

namespace {

constexpr int32_t kTokens = 4;
constexpr int kSteps = 200'000;

// A target and a draft whose next token depends on the token before; far from one another.
constexpr double kTarget[kTokens][kTokens] = {
    {0.10, 0.20, 0.30, 0.40}, {0.70, 0.10, 0.10, 0.10}, {0.00, 0.50, 0.25, 0.25}, {0.05, 0.05, 0.60, 0.30}};
constexpr double kDraft[kTokens][kTokens] = {
    {0.40, 0.30, 0.20, 0.10}, {0.25, 0.25, 0.25, 0.25}, {0.30, 0.10, 0.30, 0.30}, {0.00, 0.20, 0.20, 0.60}};

std::vector<double> row(const double (&table)[kTokens][kTokens], int32_t previous) {
  return {std::begin(table[previous]), std::end(table[previous])};
}

// Pearson's statistic of counts against expected shares; cells without a share must stay empty.
double chi_square(const std::vector<double>& counts, const std::vector<double>& shares, double total, int& degrees) {
  double sum = 0;
  degrees = -1;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (shares[i] == 0) {
      CHECK(counts[i] == 0);
      continue;
    }
    const double expected = shares[i] * total;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++degrees;
  }
  return sum;
}

// Draws the first two tokens after token 0, many times, by drafting two and verifying.
template <class Verify>
std::vector<double> count_pairs(Verify verify) {
  base::SplitMix64 random(7);
  std::vector<double> counts(kTokens * kTokens);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<int32_t> tokens;  // committed
    while (tokens.size() < 2) {
      const int32_t start = tokens.empty() ? 0 : tokens.back();
      std::array<int32_t, 2> drafts = {};
      std::array<std::vector<double>, 2> proposals;
      int32_t previous = start;
      for (size_t i = 0; i < drafts.size(); ++i) {
        proposals[i] = row(kDraft, previous);
        previous = drafts[i] = sample_token(proposals[i], random.uniform());
      }
      const Verdict verdict = verify(
          drafts, [&](int64_t i) { return std::span<const double>(proposals[static_cast<size_t>(i)]); },
          [&](int64_t i) { return row(kTarget, i == 0 ? start : drafts[static_cast<size_t>(i - 1)]); }, random);
      tokens.insert(tokens.end(), drafts.begin(), drafts.begin() + verdict.accepted);
      tokens.push_back(verdict.next_token);
    }
    counts[static_cast<size_t>(tokens[0] * kTokens + tokens[1])] += 1;
  }
  return counts;
}

std::vector<double> exact_pairs() {
  std::vector<double> shares;
  for (int a = 0; a < kTokens; ++a) {
    for (int b = 0; b < kTokens; ++b) shares.push_back(kTarget[0][a] * kTarget[a][b]);
  }
  return shares;
}

}  // namespace

TEST_CASE("sampling: rejection sampling leaves the target's distribution of sequences unchanged") {
  const auto counts = count_pairs([](auto drafts, auto proposal, auto target, base::SplitMix64& random) {
    return verify_sampled(drafts, proposal, target, random);
  });
  int degrees = 0;
  const double statistic = chi_square(counts, exact_pairs(), kSteps, degrees);
  INFO(statistic);
  CHECK(degrees == 14);
  CHECK(statistic < 36.12);  // exceeded with probability 0.001 at 14 degrees of freedom
}

TEST_CASE("sampling: the same test finds a verification that forgets to subtract the draft's share") {
  std::vector<double> counts(kTokens);
  base::SplitMix64 random(7);
  for (int step = 0; step < kSteps; ++step) {
    const auto q = row(kDraft, 0);
    const auto p = row(kTarget, 0);
    const auto draft = static_cast<size_t>(sample_token(q, random.uniform()));
    const bool accepted = random.uniform() * q[draft] < p[draft];
    counts[accepted ? draft : static_cast<size_t>(sample_token(p, random.uniform()))] += 1;
  }
  int degrees = 0;
  CHECK(chi_square(counts, row(kTarget, 0), kSteps, degrees) > 1000);
}

TEST_CASE("sampling: a draft equal to the target is always accepted, one the target excludes never") {
  base::SplitMix64 random(3);
  const std::vector<double> p = {0.25, 0.75, 0.0};
  const std::vector<double> q = {0.0, 0.0, 1.0};
  const auto always_p = [&](int64_t) { return p; };
  for (int i = 0; i < 1000; ++i) {
    const std::array<int32_t, 1> drafts = {sample_token(p, random.uniform())};
    CHECK(verify_sampled(
              drafts, [&](int64_t) { return std::span<const double>(p); }, always_p, random)
              .accepted == 1);
    const std::array<int32_t, 1> excluded = {2};
    const auto verdict = verify_sampled(
        excluded, [&](int64_t) { return std::span<const double>(q); }, always_p, random);
    CHECK(verdict.accepted == 0);
    CHECK(verdict.next_token != 2);
  }
}

TEST_CASE("sampling: greedy verification accepts while the draft is the target's choice") {
  const std::vector<std::vector<float>> logits = {{0, 1, 0}, {2, 1, 0}, {0, 0, 5}};
  const auto target = [&](int64_t i) { return std::span<const float>(logits[static_cast<size_t>(i)]); };
  const auto verdict = [&](std::vector<int32_t> drafts) { return verify_greedy(drafts, target); };
  CHECK(verdict({1, 0}).accepted == 2);
  CHECK(verdict({1, 0}).next_token == 2);
  CHECK(verdict({1, 1}).accepted == 1);
  CHECK(verdict({1, 1}).next_token == 0);
  CHECK(verdict({0, 0}).accepted == 0);
  CHECK(verdict({0, 0}).next_token == 1);
  CHECK(verdict({}).next_token == 1);
}

TEST_CASE("sampling: an explicit acceptance length is met with the least variance") {
  for (const double length : {1.0, 1.25, 3.0, 5.7, 7.999, 8.0}) {
    const AcceptanceSchedule schedule(length);
    base::SplitMix64 random(11);
    double sum = 0;
    for (int i = 0; i < 100'000; ++i) {
      const int64_t accepted = schedule.next(random);
      CHECK((accepted == static_cast<int64_t>(std::floor(length - 1)) ||
             accepted == static_cast<int64_t>(std::ceil(length - 1))));
      sum += static_cast<double>(accepted);
    }
    CHECK(1 + sum / 100'000 == Approx(length).margin(0.008));  // 5 standard deviations at a fraction of 0.5
  }
}

TEST_CASE("sampling: ties go to the first token, and rounding never picks a token without a share") {
  const std::vector<float> logits = {1, 3, 3};
  CHECK(greedy_token(logits) == 1);
  const std::vector<double> shares = {0.0, 0.5, 0.0};
  CHECK(sample_token(shares, 0.0) == 1);
  CHECK(sample_token(shares, 0.9999999999999999) == 1);
}

TEST_CASE("sampling: softmax survives extreme logits and sharpens with low temperatures") {
  const std::vector<float> logits = {1e30F, -1e30F, 0.0F};
  const auto shares = softmax(logits, 1.0);
  CHECK(shares[0] == 1.0);
  CHECK(shares[1] == 0.0);
  const std::vector<float> close = {0.0F, 1.0F};
  CHECK(softmax(close, 1.0)[1] == Approx(0.7310585786));
  CHECK(softmax(close, 0.01)[1] == Approx(1.0));
}
