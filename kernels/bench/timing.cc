#include "kernels/bench/timing.h"

#include <algorithm>
#include <chrono>

namespace flashmla::bench {

using device::Result;
using device::Status;

Timing summarise(std::vector<double> replays_us, int64_t launches) {
  Timing timing;
  timing.launches = launches;
  timing.replays_us = replays_us;
  if (replays_us.empty()) return timing;
  std::sort(replays_us.begin(), replays_us.end());
  const size_t middle = replays_us.size() / 2;
  timing.us = replays_us.size() % 2 == 1 ? replays_us[middle] : (replays_us[middle - 1] + replays_us[middle]) / 2;
  if (timing.us > 0) timing.spread = (replays_us.back() - replays_us.front()) / timing.us;
  return timing;
}

Result<Timer> Timer::make(const device::Device& device) {
  Timer timer;
  auto stream = device.create_stream();
  if (!stream) return stream.status();
  timer.stream_ = std::move(*stream);
  for (device::Event* event : {&timer.start_, &timer.end_}) {
    auto made = device.create_event();
    if (!made) return made.status();
    *event = std::move(*made);
  }
  return timer;
}

Result<device::Graph> Timer::capture(int64_t launches, const Launch& launch) const {
  if (Status begun = stream_.begin_capture(); !begun) return begun;
  Status status;
  for (int64_t n = 0; n < launches && status; ++n) status = launch(n);
  auto graph = stream_.end_capture();
  if (!status) return status;
  return graph;
}

Result<Timing> Timer::time(device::Graph& graph, int64_t launches, int32_t replays, double warm_up_ms) {
  const auto begun = std::chrono::steady_clock::now();
  do {
    Status status = graph.launch(stream_);
    if (status) status = stream_.synchronize();
    if (!status) return status;
  } while (std::chrono::steady_clock::now() - begun < std::chrono::duration<double, std::milli>(warm_up_ms));
  std::vector<double> times;
  for (int32_t replay = 0; replay < replays; ++replay) {
    Status status = start_.record(stream_);
    if (status) status = graph.launch(stream_);
    if (status) status = end_.record(stream_);
    if (status) status = end_.synchronize();
    if (!status) return status;
    const auto us = end_.microseconds_since(start_);
    if (!us) return us.status();
    times.push_back(*us / static_cast<double>(launches));
  }
  return summarise(std::move(times), launches);
}

Result<Timing> Timer::time(int64_t launches, int32_t replays, const Launch& launch, double warm_up_ms) {
  auto graph = capture(launches, launch);
  if (!graph) return graph.status();
  return time(*graph, launches, replays, warm_up_ms);
}

}  // namespace flashmla::bench
