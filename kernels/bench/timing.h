// Times of graphs of many launches.
#pragma once

#include <functional>
#include <vector>

#include "kernels/device/driver.h"

namespace flashmla::bench {

struct Timing {
  double us = 0;      // per launch, median of the replays
  double spread = 0;  // (longest - shortest) / median of the replays
  std::vector<double> replays_us;
  int64_t launches = 0;  // in the graph
};

Timing summarise(std::vector<double> replays_us, int64_t launches);

// Puts launch number n of the graph into the stream.
using Launch = std::function<device::Status(int64_t n)>;

// One stream with the events around a replay.
class Timer {
 public:
  static device::Result<Timer> make(const device::Device& device);
  const device::Stream& stream() const { return stream_; }

  device::Result<device::Graph> capture(int64_t launches, const Launch& launch) const;
  // One replay to warm up, or as many as take `warm_up_ms`, then `replays` timed ones.
  device::Result<Timing> time(device::Graph& graph, int64_t launches, int32_t replays, double warm_up_ms = 0);
  device::Result<Timing> time(int64_t launches, int32_t replays, const Launch& launch, double warm_up_ms = 0);

 private:
  Timer() = default;
  device::Stream stream_;
  device::Event start_, end_;
};

}  // namespace flashmla::bench
