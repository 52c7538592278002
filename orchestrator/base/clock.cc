#include "orchestrator/base/clock.h"

#include <ctime>

namespace sweep::base {

namespace {

int64_t read_clock(clockid_t id) {
  timespec time{};
  ::clock_gettime(id, &time);
  return static_cast<int64_t>(time.tv_sec) * kNanosecondsPerSecond + time.tv_nsec;
}
}  // namespace

int64_t monotonic_ns() {
  return read_clock(CLOCK_MONOTONIC);
}

int64_t unix_ns() {
  return read_clock(CLOCK_REALTIME);
}

std::string utc_text(int64_t unix_time_ns) {
  const auto seconds = static_cast<time_t>(unix_time_ns / kNanosecondsPerSecond);
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

}  // namespace sweep::base
