// Server-sent events from bytes that may be split anywhere.
// Format: WHATWG HTML Living Standard, "Server-sent events", parsing an event stream.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace sweep::loadgen {

struct SseEvent {
  std::string_view name;  // of the "event" field; empty if there was none
  std::string_view data;  // several data lines are joined by line feeds
};

class SseParser {
 public:
  // The views are valid during the call only.
  using OnEvent = std::function<void(const SseEvent&)>;

  // max_event_bytes bounds the memory for one event.
  explicit SseParser(size_t max_event_bytes = size_t{16} << 20) : max_event_bytes_(max_event_bytes) {}

  // False if an event exceeds the limit; everything after that is ignored.
  bool feed(std::string_view bytes, const OnEvent& on_event);

  // The end of the stream. By the standard an event without its closing blank line is dropped; servers that close right
  // after their last line exist, so it is handed over here, and true is returned if there was one.
  bool finish(const OnEvent& on_event);

 private:
  void take_line(std::string_view line, const OnEvent& on_event);
  void dispatch(const OnEvent& on_event);

  size_t max_event_bytes_;
  std::string line_;  // the part of a line that came in an earlier piece
  std::string data_;  // each data line followed by a line feed
  std::string name_;
  bool first_line_ = true;  // where a byte order mark may stand
  bool after_carriage_return_ = false;
  bool overflow_ = false;
};

}  // namespace sweep::loadgen
