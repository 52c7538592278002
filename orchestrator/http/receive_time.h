// When bytes reached this machine: the kernel stamps each segment as it arrives, so that the time does not depend on
// when a busy program comes round to reading it. Internal to this module.
#pragma once

#include <cstdint>
#include <optional>

namespace sweep::http {

// Asks for stamps on the socket. Without support for them, arrival() gives nothing.
void stamp_arrivals(int socket);

// The wall clock, by which the kernel stamps, in terms of CLOCK_MONOTONIC. Made anew for each round of reading, because
// the wall clock is adjusted.
class WallClockOffset {
 public:
  static WallClockOffset now();

  int64_t to_monotonic(int64_t unix_ns) const { return unix_ns - offset_ns_; }
  // Whether the wall clock was set, rather than slewed, between the two.
  bool continues(const WallClockOffset& earlier) const;

 private:
  int64_t offset_ns_ = 0;
};

struct Arrival {
  int64_t unix_ns = 0;
  int64_t bytes = 0;  // that can be read
};

// When the last of the bytes arrived that can be read from the socket now. They stay there. Nothing if there are none,
// or none with a stamp.
std::optional<Arrival> arrival(int socket);

}  // namespace sweep::http
