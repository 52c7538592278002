#include "orchestrator/sample/metrics.h"

#include <algorithm>
#include <numeric>

#include "tests/support/catch.h"

namespace sweep::sample {

namespace {

constexpr int64_t kMs = 1'000'000;

// A request sent at `sent_ms` with chunks {ms after sending, tokens}.
Sample made(int64_t sent_ms, std::vector<std::pair<double, int64_t>> chunks) {
  Sample sample{
      .sequence = 0, .scheduled_ns = sent_ms * kMs, .sent_ns = sent_ms * kMs, .sent_unix_ns = sent_ms * kMs + 5};
  int64_t tokens = 0;
  for (const auto& [ms, count] : chunks) {
    sample.chunks.push_back({.ns = sample.sent_ns + static_cast<int64_t>(ms * kMs), .tokens = count});
    tokens += count;
  }
  if (!sample.chunks.empty()) {
    sample.first_token_ns = sample.chunks.front().ns;
    sample.last_token_ns = sample.chunks.back().ns;
  }
  sample.end_ns = sample.sent_ns + 1000 * kMs;
  sample.prompt_tokens = 8;
  sample.completion_tokens = tokens;
  sample.received_tokens = tokens;
  return sample;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("metrics: TPOT and ITL count tokens, inter-chunk counts chunks") {
  const Sample sample = made(100, {{412, 1}, {418.2, 6}, {424.1, 5}, {430.3, 6}, {436.2, 6}});
  CHECK(*ttft_ms(sample) == Approx(412));
  CHECK(*e2e_ms(sample) == Approx(436.2));
  CHECK(*tpot_ms(sample) == Approx(24.2 / 23));
  const auto itl = itl_ms(sample);
  CHECK(itl.size() == 23);
  CHECK(mean(itl) == Approx(*tpot_ms(sample)));
  CHECK(itl.front() == Approx(6.2 / 6));
  const auto gaps = inter_chunk_ms(sample);
  CHECK(gaps.size() == 4);
  CHECK(mean(gaps) == Approx(6.05));
}

TEST_CASE("metrics: tokens that come with the first one have waited 0 ms, and TTFT and all TPOTs add up to E2E") {
  const Sample sample = made(0, {{50, 6}, {56, 6}});
  CHECK(*tpot_ms(sample) == Approx(6.0 / 11));
  CHECK(*ttft_ms(sample) + 11 * *tpot_ms(sample) == Approx(*e2e_ms(sample)));
  CHECK(itl_ms(sample) == std::vector<double>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1});
  CHECK(mean(itl_ms(sample)) == Approx(*tpot_ms(sample)));
}

TEST_CASE("metrics: without counts per chunk TPOT takes the first chunk as one token and there is no ITL") {
  Sample sample = made(0, {{10, 1}, {20, 5}, {30, 5}});
  for (Chunk& chunk : sample.chunks) chunk.tokens.reset();
  CHECK(*tpot_ms(sample) == Approx(20.0 / 10));
  CHECK(itl_ms(sample).empty());
  CHECK(inter_chunk_ms(sample).size() == 2);
}

TEST_CASE("metrics: text of earlier tokens adds its gap to the next chunk") {
  const Sample sample = made(0, {{10, 1}, {12, 0}, {16, 2}});
  CHECK(itl_ms(sample) == std::vector<double>{3, 3});
}

TEST_CASE("metrics: a first chunk whose token is counted later holds the first token all the same") {
  const Sample sample = made(0, {{10, 0}, {12, 1}, {16, 2}});
  CHECK(itl_ms(sample) == std::vector<double>{3, 3});
  CHECK(*tpot_ms(sample) == Approx(3));
}

TEST_CASE("metrics: a request without tokens has no latency, one token has no TPOT") {
  const Sample none = made(0, {});
  CHECK(!ttft_ms(none));
  CHECK(!e2e_ms(none));
  CHECK(!tpot_ms(none));
  CHECK(itl_ms(none).empty());
  const Sample one = made(0, {{9, 1}});
  CHECK(*ttft_ms(one) == Approx(9));
  CHECK(!tpot_ms(one));
  const Sample at_once = made(0, {{9, 5}});
  CHECK(!tpot_ms(at_once));
}

TEST_CASE("metrics: latency counts from the scheduled time") {
  Sample late = made(100, {{10, 1}, {20, 1}});
  late.scheduled_ns -= 30 * kMs;
  CHECK(*ttft_ms(late) == Approx(40));
  CHECK(*e2e_ms(late) == Approx(50));
  CHECK(*tpot_ms(late) == Approx(10));
}

TEST_CASE("metrics: an absurd count of a server is no allocation") {
  Sample sample = made(0, {{1, 1}, {2, 1}});
  sample.chunks[1].tokens = int64_t{1} << 39;
  CHECK(itl_ms(sample).empty());
  sample.chunks[0].tokens = int64_t{1} << 39;
  sample.chunks[1].tokens = 1;
  CHECK(itl_ms(sample).empty());
}

TEST_CASE("measured_window: from the first send to the last token, warm-up left out") {
  std::vector<Sample> samples{made(500, {{10, 1}, {40, 1}}), made(200, {{10, 1}, {20, 1}}), made(0, {{900, 1}})};
  samples[2].phase = Phase::kWarmUp;
  const auto window = measured_window(samples);
  REQUIRE(window.has_value());
  CHECK(window->start_ns == 200 * kMs);
  CHECK(window->end_ns == 540 * kMs);
  CHECK(window->start_unix_ns == 200 * kMs + 5);
  CHECK(window->end_unix_ns - window->start_unix_ns == 340 * kMs);
  CHECK(window->seconds() == Approx(0.34));
  samples[0].problems.push_back({"load/stream-cut", "x"});
  CHECK(measured_window(samples)->end_ns == samples[0].end_ns);
  CHECK(!measured_window(std::span(samples).subspan(2)));
  CHECK(!measured_window({}));
}

TEST_CASE("summarise: failed and warm-up requests are counted and left out of the figures") {
  std::vector<Sample> samples{made(0, {{10, 1}, {20, 1}}), made(100, {{30, 1}, {40, 1}}),
                              made(200, {{999, 1}, {1000, 1}}), made(0, {{700, 1}, {800, 1}})};
  samples[2].problems.push_back({"load/short-output", "x"});
  samples[3].phase = Phase::kWarmUp;
  const Summary summary = summarise(samples);
  CHECK(summary.requests == 3);
  CHECK(summary.failed == 1);
  CHECK(summary.warm_up_requests == 1);
  CHECK(summary.warm_up_failed == 0);
  CHECK(summary.completion_tokens == 4);
  CHECK(summary.prompt_tokens == 16);
  CHECK(summary.ttft_ms.count == 2);
  CHECK(*summary.ttft_ms.mean == Approx(20));
  CHECK(summary.itl_ms.count == 2);
  CHECK(summary.window->seconds() == Approx(1.2));
  CHECK(*summary.output_token_throughput == Approx(4 / 1.2));
  CHECK(*summary.total_token_throughput == Approx(20 / 1.2));
  CHECK(*summary.request_throughput == Approx(2 / 1.2));

  std::vector<Sample> reversed(samples.rbegin(), samples.rend());
  const Summary again = summarise(reversed);
  CHECK(*again.ttft_ms.mean == *summary.ttft_ms.mean);
  CHECK(again.window->start_ns == summary.window->start_ns);
}

TEST_CASE("summarise: nothing measured gives nothing, not zero") {
  const Summary summary = summarise({});
  CHECK(summary.requests == 0);
  CHECK(!summary.window);
  CHECK(!summary.output_token_throughput);
  CHECK(!summary.ttft_ms.mean);
}

TEST_CASE("summarise: the most requests in flight are those whose times overlap, warm-up left out") {
  const auto at = [](int64_t sent, int64_t ended, Phase phase = Phase::kMeasured) {
    Sample s = made(sent, {{1, 1}, {2, 1}});
    s.end_ns = ended * kMs;
    s.phase = phase;
    return s;
  };
  CHECK(summarise({}).most_in_flight == 0);
  // One after the other, as at concurrency 1: the next is sent when the last has ended.
  CHECK(summarise(std::vector{at(0, 10), at(10, 20), at(20, 30)}).most_in_flight == 1);
  CHECK(summarise(std::vector{at(0, 10), at(5, 20), at(9, 30), at(25, 40)}).most_in_flight == 3);
  CHECK(summarise(std::vector{at(0, 10), at(5, 20, Phase::kWarmUp)}).most_in_flight == 1);
  // A damaged record that ends before it was sent takes nothing away from the others.
  CHECK(summarise(std::vector{at(5, 0), at(4, 20)}).most_in_flight == 1);
}

}  // namespace sweep::sample
