#include "kernels/bench/upstream.h"

#include <charconv>

namespace flashmla::bench {
namespace {

constexpr std::string_view kRecorded =
#include "bench/upstream_h200.inc"
    ;

std::string_view take(std::string_view& text, char end) {
  const size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

template <typename Number>
bool take_number(std::string_view& line, Number& number) {
  const std::string_view field = take(line, ',');
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  return error == std::errc() && end == field.data() + field.size();
}

bool parse_line(std::string_view line, UpstreamTime& time) {
  const std::string_view section = take(line, ',');
  if (section.size() != 1) return false;
  time.section = section[0];
  time.kind = take(line, ',');
  const bool whole = take_number(line, time.heads) && take_number(line, time.s_q) && take_number(line, time.batch) &&
                     take_number(line, time.main_topk) && take_number(line, time.extra_topk) &&
                     take_number(line, time.seq_len) && take_number(line, time.cold_us) &&
                     take_number(line, time.warm_us);
  if (!whole) return false;
  if (line.empty()) return true;
  double read = 0;
  if (!take_number(line, read)) return false;
  time.read_us = read;
  return line.empty();
}

}  // namespace

std::vector<UpstreamTime> parse_upstream(std::string_view csv) {
  std::vector<UpstreamTime> times;
  while (!csv.empty()) {
    const std::string_view line = take(csv, '\n');
    if (line.empty() || line[0] == '#' || line.substr(0, 8) == "section,") continue;
    UpstreamTime time{};
    if (!parse_line(line, time)) return {};
    times.push_back(time);
  }
  return times;
}

const std::vector<UpstreamTime>& recorded_upstream() {
  static const std::vector<UpstreamTime> times = parse_upstream(kRecorded);
  return times;
}

std::optional<UpstreamTime> upstream_time(const DeviceShape& shape) {
  const int32_t padded = shape.num_heads <= 64 ? 64 : 128;
  const int32_t heads = shape.dense() ? shape.num_heads : padded;
  for (const UpstreamTime& time : recorded_upstream()) {
    if (time.kind == info(shape.kind).name && time.heads == heads && time.s_q == shape.s_q &&
        time.batch == shape.batch && time.main_topk == shape.main_topk && time.extra_topk == shape.extra_topk &&
        time.seq_len == shape.seq_len) {
      return time;
    }
  }
  return std::nullopt;
}

bool is_upstream_card(std::string_view device_name) {
  return device_name == kUpstreamCard;
}

}  // namespace flashmla::bench
