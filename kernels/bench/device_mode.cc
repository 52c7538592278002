#include "kernels/bench/device_mode.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/bench/device_report.h"
#include "kernels/bench/upstream.h"

namespace flashmla::bench {
namespace {

constexpr int kDone = 0;
constexpr int kCouldNotRun = 3;

bool parse_count(const std::string& text, int32_t highest, int32_t& count) {
  if (text.empty() || text.size() > 9) return false;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
  }
  count = std::atoi(text.c_str());
  return count >= 1 && count <= highest;
}

std::string parse_heads(const std::string& text, std::vector<int32_t>& heads) {
  size_t at = 0;
  while (at <= text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    int32_t count = 0;
    if (!parse_count(text.substr(at, comma - at), FLASHMLA_MAX_HEADS, count)) {
      return "--heads is \"" + text + "\", expected numbers of 1 to 128 with commas between them";
    }
    heads.push_back(count);
    at = comma + 1;
  }
  return {};
}

// "A", "A,F", "transition".
std::string parse_sections(const std::string& text, DeviceOptions& options) {
  options.shapes = false;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string section = text.substr(at, comma - at);
    if (section == "transition") {
      options.transition = true;
    } else if (section.size() == 1 && std::strchr("ABCFN", section[0]) != nullptr) {
      options.shapes = true;
      options.filter.sections += section;
    } else {
      return "--section is \"" + text + "\", expected A, B, C, F, N or transition, with commas between them";
    }
    at = comma + 1;
  }
  return {};
}

std::string parse_option(const std::string& name, const std::string& value, DeviceOptions& options) {
  const std::pair<const char*, std::string*> texts[] = {
      {"--library", &options.library}, {"--baseline", &options.baseline}, {"--plain-read", &options.plain_read},
      {"--json", &options.json},       {"--plot", &options.plot},         {"--shape", &options.filter.part_of_name}};
  for (const auto& [option, place] : texts) {
    if (name != option) continue;
    *place = value;
    return {};
  }
  if (name == "--section") return parse_sections(value, options);
  if (name == "--heads") return parse_heads(value, options.filter.heads);
  if (name == "--replays") {
    return parse_count(value, 1000, options.replays) ? "" : "--replays is \"" + value + "\", expected 1 to 1000";
  }
  return "unknown option \"" + name + "\"";
}

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
  if (options.json.empty()) return true;
  const std::string error = write_file(options.json, to_json(report));
  if (!error.empty())
    std::fprintf(stderr, "flashmla-bench: cannot write \"%s\": %s\n", options.json.c_str(), error.c_str());
  return error.empty();
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
  print(heading(report));
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
    print(table_row(report.transition.back(), baseline != nullptr));
    if (!save(options, report)) return false;
  }
  return true;
}

}  // namespace

std::optional<DeviceOptions> parse_device_options(int argc, char** argv, std::string& error) {
  DeviceOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--quick") {
      options.filter.quick = true;
      continue;
    }
    if (i + 1 == argc) {
      error = "\"" + name + "\" expects a value";
      return std::nullopt;
    }
    error = parse_option(name, argv[++i], options);
    if (!error.empty()) return std::nullopt;
  }
  if (options.library.empty() || options.plain_read.empty()) {
    error = "--library and --plain-read are required";
    return std::nullopt;
  }
  if (options.shapes && device_shapes(options.filter).empty()) {
    error = "no shape is called \"" + options.filter.part_of_name + "\"";
    return std::nullopt;
  }
  return options;
}

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
  if (options.shapes && !measure_shapes(options, *bench, *candidate, report)) return kCouldNotRun;
  if (options.transition && !measure_transition(options, *bench, *candidate, baseline.get(), report)) {
    return kCouldNotRun;
  }
  report.clocks_after = bench->clocks().read();
  if (!save(options, report)) return kCouldNotRun;
  return report.complete() ? kDone : could_not_run("not every shape was measured");
}

}  // namespace flashmla::bench
