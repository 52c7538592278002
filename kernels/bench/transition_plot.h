// The gain of native over padded heads, drawn.
#pragma once

#include <string>

#include "kernels/bench/device_report.h"

namespace flashmla::bench {

// SVG without scripts or anything from elsewhere: query rows on a logarithmic axis, gain on a linear one from 0.
std::string transition_svg(const DeviceReport& report);

}  // namespace flashmla::bench
