// Recorded streams, through the parser and the checks of a live request.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "orchestrator/loadgen/recorded_stream.h"
#include "orchestrator/sample/metrics.h"
#include "orchestrator/stats/distribution.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sweep;
  using fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto stream = loadgen::replay(text, "stream", {.isl = 8, .osl = 3});
  if (!stream) {
    require(stream.error().where->line > 0, "a refused recording has no line");
    return 0;
  }
  const sample::Sample& s = stream->sample;
  require(stream->token_events >= static_cast<int64_t>(s.chunks.size()), "more chunks than events");
  require(s.first_token_ns.has_value() == !s.chunks.empty(), "tokens without a time, or a time without tokens");
  if (s.ok()) require(s.completion_tokens == stream->asked.osl, "a good request of another length");
  const auto ttft = sample::ttft_ms(s);
  const auto tpot = sample::tpot_ms(s);
  const auto e2e = sample::e2e_ms(s);
  if (!tpot) return 0;
  require(ttft && e2e && *ttft >= 0 && *tpot >= 0, "TPOT without TTFT and E2E, or a negative time");
  const auto tokens = static_cast<double>(s.completion_tokens ? *s.completion_tokens : *s.received_tokens);
  require(std::abs(*ttft + (tokens - 1) * *tpot - *e2e) < 1e-3, "TTFT and all TPOTs do not add up to E2E");
  // Text behind the last counted token has moved the end, but is no token.
  if (!s.ok() || !s.received_tokens || s.chunks.back().tokens == 0) return 0;
  const auto itl = stats::describe(sample::itl_ms(s));
  require(itl && itl->mean && std::abs(*itl->mean - *tpot) < 1e-6, "the mean of all ITLs is not TPOT");
  return 0;
}
