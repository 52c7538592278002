#include "orchestrator/loadgen/sse_parser.h"

#include <algorithm>

namespace sweep::loadgen {

namespace {
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// As find_first_of("\r\n"), which makes a call for each byte.
size_t end_of_line(std::string_view bytes) {
  const auto found = std::find_if(bytes.begin(), bytes.end(), [](char c) { return c == '\n' || c == '\r'; });
  return found == bytes.end() ? std::string_view::npos : static_cast<size_t>(found - bytes.begin());
}
}  // namespace

bool SseParser::feed(std::string_view bytes, const OnEvent& on_event) {
  while (!bytes.empty() && !overflow_) {
    // A line ends with LF, CR or CRLF; the LF of a CRLF may come in the next piece.
    if (after_carriage_return_) {
      after_carriage_return_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const size_t end = end_of_line(bytes);
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() + data_.size() > max_event_bytes_) {
      overflow_ = true;
      break;
    }
    if (end == std::string_view::npos) {
      line_ += part;
      break;
    }
    after_carriage_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      take_line(part, on_event);
    } else {
      line_ += part;
      take_line(line_, on_event);
      line_.clear();
    }
  }
  return !overflow_;
}

bool SseParser::finish(const OnEvent& on_event) {
  if (overflow_) return false;
  if (!line_.empty()) take_line(line_, on_event);
  line_.clear();
  const bool unterminated = !data_.empty();
  dispatch(on_event);
  return unterminated;
}

void SseParser::take_line(std::string_view line, const OnEvent& on_event) {
  if (first_line_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  first_line_ = false;
  if (line.empty()) return dispatch(on_event);
  const size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    data_ += value;
    data_ += '\n';
  } else if (field == "event") {
    name_ = value;
  }
}

void SseParser::dispatch(const OnEvent& on_event) {
  if (!data_.empty()) {
    data_.pop_back();
    on_event({.name = name_, .data = data_});
  }
  data_.clear();
  name_.clear();
}

}  // namespace sweep::loadgen
