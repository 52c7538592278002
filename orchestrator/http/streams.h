// Many concurrent requests on the calling thread, with the time at which each piece of a reply was received.
//
// Each request has a connection of its own: on a kept-alive connection, libcurl silently repeats a request when the
// server closes it before answering, and a repeated request would not be seen in a measurement.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/request.h"

namespace sweep::http {

struct StreamEnd {
  ReplyHead head;                         // status 0 if no reply began
  std::optional<diag::Diagnostic> error;  // absent: the reply is complete
  int64_t ended_ns = 0;                   // CLOCK_MONOTONIC
};

// Called on the thread that polls, never while libcurl is at work: they may start and cancel requests.
struct StreamCallbacks {
  // Once, before the first bytes, or before the end of a reply without a body.
  std::function<void(const ReplyHead&)> head;
  // received_ns: CLOCK_MONOTONIC when the last of the bytes arrived at this machine, as the kernel stamps it, however
  // long it took to read them; without stamps, when they were read. Ascending for each stream.
  // Everything that is readable is read first and delivered afterwards, so that the work done here holds up nobody.
  std::function<void(std::string_view bytes, int64_t received_ns)> bytes;
  // Exactly once, last.
  std::function<void(const StreamEnd&)> end;
};

class Streams {
 public:
  using Id = uint64_t;

  // When `stop` is requested, a poll in progress wakes up and all requests end as cancelled.
  static diag::Result<Streams> open(std::stop_token stop = {});

  Streams(Streams&&) noexcept;
  Streams& operator=(Streams&&) noexcept;
  ~Streams();  // drops what is still active, without callbacks

  // Sends at once. A request that cannot be sent ends, with its reason, in the next poll.
  Id start(Method method, Request request, StreamCallbacks callbacks);

  // The request ends as cancelled in the next poll. An id that has ended is ignored.
  void cancel(Id id);

  // Requests whose end was not yet delivered.
  size_t active() const;

  // Waits up to `longest` for something to happen and delivers it. Returns at once when nothing is active.
  void poll(std::chrono::nanoseconds longest);

 private:
  class State;
  explicit Streams(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sweep::http
