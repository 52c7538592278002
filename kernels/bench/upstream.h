// Upstream FlashMLA's times at the same shapes, as recorded in upstream_h200.csv (embedded at build time).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/bench/device_shapes.h"

namespace flashmla::bench {

constexpr const char* kUpstreamCommit = "9241ae3ef9bac614dd25e45e507e089f888280e0";
constexpr const char* kUpstreamCard = "NVIDIA H200";

struct UpstreamTime {
  char section;
  std::string kind;
  int32_t heads, s_q, batch, main_topk, extra_topk, seq_len;
  double cold_us;
  double warm_us;
  std::optional<double> read_us;
};

// Comment lines and the heading are skipped; a malformed line makes the whole text unreadable (empty).
std::vector<UpstreamTime> parse_upstream(std::string_view csv);
const std::vector<UpstreamTime>& recorded_upstream();

// The call that a user of upstream has to make for this shape: sparse decode pads the heads to 64 or 128.
std::optional<UpstreamTime> upstream_time(const DeviceShape& shape);

// Whether times on a card of that name may be compared with the recorded ones.
bool is_upstream_card(std::string_view device_name);

}  // namespace flashmla::bench
