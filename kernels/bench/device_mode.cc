#include "kernels/bench/device_mode.h"

#include <cstdio>

#include "kernels/bench/device_report.h"
#include "kernels/bench/output.h"
#include "kernels/bench/transition_plot.h"
#include "kernels/bench/upstream.h"

namespace flashmla::bench {
namespace {

constexpr int kDone = 0;
constexpr int kCouldNotRun = 3;

int could_not_run(const std::string& why) {
  std::fprintf(stderr, "flashmla-bench: %s\n", why.c_str());
  return kCouldNotRun;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// Keeps what there is so far: a device that fails half way loses nothing.
bool save(const DeviceOptions& options, const DeviceReport& report) {
  return options.json.empty() || write_file(options.json, to_json(report));
}

DeviceReport describe(const DeviceOptions& options, const DeviceBench& bench, const Candidate& candidate) {
  DeviceReport report;
  report.library = options.library;
  report.baseline = options.baseline;
  report.plain_read = options.plain_read;
  report.arch = candidate.library().build().arch;
  report.variant = candidate.library().build().variant;
  report.compiler = candidate.library().build().compiler;
  report.device = bench.device();
  report.driver_version = bench.clocks().driver_version();
  report.replays = options.replays;
  return report;
}

bool measure_shapes(const DeviceOptions& options, DeviceBench& bench, const Candidate& candidate,
                    DeviceReport& report) {
  print(shape_heading());
  for (const DeviceShape& shape : device_shapes(options.filter)) {
    report.shapes.push_back(bench.measure(candidate, shape));
    print(table_row(report.shapes.back(), is_upstream_card(report.device.name)));
    if (!save(options, report)) return false;
  }
  print(summary(report));
  return true;
}

bool measure_transition(const DeviceOptions& options, DeviceBench& bench, const Candidate& candidate,
                        const Candidate* baseline, DeviceReport& report) {
  print(transition_heading(baseline != nullptr));
  for (const int32_t rows : transition_rows()) {
    report.transition.push_back(bench.transition(candidate, baseline, rows));
    print(table_row(report.transition.back(), baseline != nullptr, is_upstream_card(report.device.name)));
    if (!save(options, report)) return false;
  }
  return true;
}

}  // namespace

int run_device_mode(const DeviceOptions& options) {
  std::string error;
  const std::unique_ptr<DeviceBench> bench = DeviceBench::open(options.plain_read, options.replays, error);
  if (bench == nullptr) return could_not_run(error);
  const std::unique_ptr<Candidate> candidate = Candidate::open(options.library, error);
  if (candidate == nullptr) return could_not_run("cannot use \"" + options.library + "\": " + error);
  std::unique_ptr<Candidate> baseline;
  if (!options.baseline.empty()) {
    baseline = Candidate::open(options.baseline, error);
    if (baseline == nullptr) return could_not_run("cannot use \"" + options.baseline + "\": " + error);
  }
  DeviceReport report = describe(options, *bench, *candidate);
  const auto ceilings = bench->ceilings();
  if (!ceilings) return could_not_run(ceilings.message());
  report.ceilings = *ceilings;
  report.clocks_before = bench->clocks().read();  // after the first work, so that they are not those of an idle card
  print(heading(report));
  if (options.shapes && !measure_shapes(options, *bench, *candidate, report)) return kCouldNotRun;
  if (options.transition && !measure_transition(options, *bench, *candidate, baseline.get(), report)) {
    return kCouldNotRun;
  }
  report.clocks_after = bench->clocks().read();
  if (options.transition && !options.plot.empty() && !write_file(options.plot, transition_svg(report))) {
    return kCouldNotRun;
  }
  if (!save(options, report)) return kCouldNotRun;
  return report.complete() ? kDone : could_not_run("not every shape was measured");
}

}  // namespace flashmla::bench
