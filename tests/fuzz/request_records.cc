// Raw requests, as `summary` and `inspect result` read them: what is accepted is written the same again, and gives
// figures that agree with one another.
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "orchestrator/sample/metrics.h"
#include "orchestrator/sample/sample_file.h"
#include "tests/fuzz/require.h"

namespace {

void check(const sweep::stats::Distribution& d, const char* name) {
  using sweep::fuzz::require;
  const std::string what(name);
  require(d.mean.has_value() == (d.count > 0), what + ": a mean of nothing, or none of something");
  if (!d.mean) return;
  require(std::isfinite(*d.mean) && *d.min <= *d.mean && *d.mean <= *d.max, what + ": the mean lies outside");
  if (d.p50 && d.p90) require(*d.p50 <= *d.p90, what + ": percentiles fall");
  if (d.p90 && d.p99) require(*d.p90 <= *d.p99, what + ": percentiles fall");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sweep;
  using fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = sample::parse_samples(text, "requests.jsonl");
  if (!file) {
    require(file.error().where->line > 0, "a refused file has no line");
    return 0;
  }
  for (const sample::Sample& s : file->samples) {
    const auto again = sample::sample_from_json(sample::to_json(s));
    require(again && *again == s, "a record that was read is written otherwise");
  }
  const sample::Summary summary = sample::summarise(file->samples);
  require(summary.requests + summary.warm_up_requests == static_cast<int64_t>(file->samples.size()),
          "requests were lost");
  require(summary.failed <= summary.requests, "more failures than requests");
  require(summary.e2e_ms.count <= summary.requests - summary.failed, "a failed request has a latency");
  require(summary.send_delay_ms.count == summary.requests - summary.failed, "a request was not sent");
  check(summary.ttft_ms, "TTFT");
  check(summary.tpot_ms, "TPOT");
  check(summary.itl_ms, "ITL");
  check(summary.inter_chunk_ms, "inter-chunk");
  check(summary.e2e_ms, "E2E");
  check(summary.send_delay_ms, "send delay");
  return 0;
}
