// What a run on a GPU found, as a table for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "kernels/bench/device_bench.h"

namespace flashmla::bench {

constexpr int kDeviceReportSchemaVersion = 1;

struct DeviceReport {
  std::string library, baseline, plain_read;  // paths; baseline may be empty
  std::string arch, variant, compiler;        // of the library
  device::DeviceInfo device;
  std::string driver_version;
  std::optional<Clocks> clocks_before, clocks_after;  // of the whole run
  int32_t replays = 0;
  Ceilings ceilings;
  std::vector<ShapeResult> shapes;
  std::vector<TransitionPoint> transition;

  bool complete() const;  // every shape has its times
};

// Device, clocks, library, ceilings.
std::string heading(const DeviceReport& report);
std::string shape_heading();
// One line of the table. `same_card`: ratios to the recorded upstream times mean something.
std::string table_row(const ShapeResult& result, bool same_card);
std::string transition_heading(bool with_baseline);
std::string table_row(const TransitionPoint& point, bool with_baseline, bool same_card);
// By section, how far the run is from upstream and from the floor, and in which shapes.
std::string summary(const DeviceReport& report);

// Not measured is null.
std::string to_json(const DeviceReport& report);

}  // namespace flashmla::bench
