// A process that streams completions on a schedule and writes down when each chunk was sent: what a client's receive
// times are held against.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace sweep::bench {

struct Schedule {
  int streams = 1;
  int chunks = 1;           // of each stream, one token each
  int64_t interval_us = 1;  // between two chunks of a stream
  bool together = true;     // all streams at the same moments, as an engine's steps bring them; else evenly spread
};

// One thread on epoll, forked from the caller. Each stream is one POST; the "seed" of its body is its name. Chunks are
// sent once `streams` requests have arrived.
class ChunkServer {
 public:
  // Exits the program if the system refuses.
  ChunkServer(const Schedule& schedule, std::vector<uint64_t> seeds);
  ChunkServer(const ChunkServer&) = delete;
  ChunkServer& operator=(const ChunkServer&) = delete;
  ~ChunkServer();  // ends the process

  int port() const { return port_; }

  // CLOCK_MONOTONIC right before the write of each chunk of the stream with the n-th seed; 0: not sent.
  std::span<const int64_t> sent_ns(size_t n) const;

 private:
  Schedule schedule_;
  std::vector<uint64_t> seeds_;
  size_t stamp_bytes_ = 0;
  int64_t* stamps_ = nullptr;  // shared with the process
  int port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace sweep::bench
