// What the recorded times mean. Defined once, here; everything that is reported is computed from samples by this file.
// README.md says where each is printed, with an example.
//
//   TTFT   first token received - scheduled (in closed loop a request is scheduled when it is sent)
//   E2E    last token received - scheduled; a finish event, the usage event and [DONE] do not move it
//   TPOT   (last token - first token) / (tokens - 1)
//          A verification step of speculative decoding commits several tokens, which arrive as one chunk. `tokens` is
//          the server's count (usage), never the number of chunks. TTFT + (tokens - 1) * TPOT = E2E, always; it is the
//          definition of MLPerf LoadGen and of the usual clients.
//   ITL    per token: the gap before a chunk, divided by its tokens, once for each of its tokens; tokens of the first
//          chunk beyond its first arrive with it, after 0 ms. A request has tokens - 1 of them, and their mean is its
//          TPOT.
//   inter-chunk   the gap before each chunk, undivided: the time of a verification step as the client sees it.
//   send delay    sent - scheduled: how late the client was, which TTFT and E2E include; 0 in closed loop
//
// Times are CLOCK_MONOTONIC at receive; results are milliseconds.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "orchestrator/sample/sample.h"
#include "orchestrator/stats/distribution.h"

namespace sweep::sample {

// Absent where the sample does not hold what they need: no token, or fewer than two for TPOT.
std::optional<double> ttft_ms(const Sample& sample);
std::optional<double> e2e_ms(const Sample& sample);
std::optional<double> tpot_ms(const Sample& sample);
double send_delay_ms(const Sample& sample);

// Empty if the tokens of a chunk are not known; of the first chunk, one is then taken.
std::vector<double> itl_ms(const Sample& sample);
std::vector<double> inter_chunk_ms(const Sample& sample);

// From the first send of the measured phase to the last token of it (for a failed request: to its end).
struct Window {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;
  int64_t start_unix_ns = 0;
  int64_t end_unix_ns = 0;

  double seconds() const;
};

// Nothing without a measured sample.
std::optional<Window> measured_window(std::span<const Sample> samples);

struct Summary {
  int64_t requests = 0;  // measured ones
  int64_t failed = 0;    // those of them with a problem: counted here, left out of everything below
  int64_t warm_up_requests = 0;
  int64_t warm_up_failed = 0;
  int64_t most_in_flight = 0;  // measured ones at one time, failed ones included
  std::optional<Window> window;

  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  std::optional<double> request_throughput;       // per second of the window
  std::optional<double> output_token_throughput;  // tokens per second of the window
  std::optional<double> total_token_throughput;   // prompt and output

  stats::Distribution ttft_ms;
  stats::Distribution tpot_ms;
  stats::Distribution itl_ms;
  stats::Distribution inter_chunk_ms;
  stats::Distribution e2e_ms;
  stats::Distribution send_delay_ms;
};

// The order of the samples does not matter. Failed and warm-up requests are counted and otherwise left out.
Summary summarise(std::span<const Sample> samples);

}  // namespace sweep::sample
