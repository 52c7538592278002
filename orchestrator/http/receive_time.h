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

// A piece of a body as libcurl hands it over, and what lay around it on the connection.
struct Piece {
  size_t body_bytes = 0;
  size_t head_bytes = 0;    // of heads, since the piece before
  size_t coding_bytes = 0;  // that chunked coding and TLS put around this piece, at least
  int64_t read_ns = 0;      // CLOCK_MONOTONIC
};

// When the pieces arrived that one call of libcurl reads. More than was looked at may have arrived before it reads: the
// time of that is not known better than when it was read, and an earlier one would be a time before it was sent.
class ArrivalOfPieces {
 public:
  // Before the call: when the last of `bytes` arrived, CLOCK_MONOTONIC.
  void begin(int64_t arrived_ns, int64_t bytes);
  // After it: nothing that is read now was looked at.
  void end() { begin(0, 0); }

  int64_t time_of(const Piece& piece);

 private:
  int64_t arrived_ns_ = 0;
  int64_t unread_bytes_ = 0;  // of those that were looked at
  int64_t behind_ = 0;        // coding of the last piece: what is read next, if anything is
};

}  // namespace sweep::http
