// flashmla-gate: decides whether a kernel library may be used.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "kernels/gate/accelerator.h"
#include "kernels/gate/cases.h"
#include "kernels/gate/checks.h"
#include "kernels/gate/library.h"
#include "kernels/gate/options.h"
#include "kernels/gate/report.h"

namespace flashmla::gate {
namespace {

enum Exit { kPassed = 0, kUsage = 2, kCouldNotRun = 3, kFailed = 4, kBug = 70 };

int could_not_run(const std::string& what, const std::string& why) {
  std::fprintf(stderr, "flashmla-gate: %s: %s\n", what.c_str(), why.c_str());
  return kCouldNotRun;
}

int wrong_usage(const std::string& error) {
  std::fprintf(stderr, "flashmla-gate: %s\n\n%s", error.c_str(), kUsageText);
  return kUsage;
}

void print_failures(const Cell& cell) {
  for (const Failure& failure : cell.failures) {
    std::fprintf(stderr, "flashmla-gate: cell %s (%s): %s: %s\n", cell.name.c_str(), cell.shape.c_str(),
                 failure.check.c_str(), failure.message.c_str());
  }
}

void print_summary(const Report& report) {
  for (const Group& group : groups_of(report.cells)) {
    const Errors& errors = group.ordinary;
    std::printf(
        "flashmla-gate: %-9s %4lld cells, %lld failed; ordinary data: output %.3g mean, %.3g Frobenius; "
        "LSE %.3g mean, %.3g of the floor\n",
        group.name.c_str(), static_cast<long long>(group.cells), static_cast<long long>(group.failed),
        errors.output.mean(), errors.output.relative_frobenius(), errors.lse.mean(), errors.lse_ratio());
  }
  std::string where = report.library_build.arch + std::string(", ") + report.library_build.variant;
  where += std::string(", ") + (report.device ? report.device->name : std::string(report.library_build.isa));
  std::printf("flashmla-gate: %s, %zu cells, %s\n", report.passed() ? "passed" : "FAILED", report.cells.size(),
              where.c_str());
}

// Names of all cells go through the filter, that of the arguments' too.
void run_cells(const Options& options, const Subjects& subjects, const Effort& effort, Report& report) {
  auto wanted = [&](const std::string& name) { return name.find(options.filter) != std::string::npos; };
  auto keep = [&](Cell cell) {
    print_failures(cell);
    const bool lost = !cell.passed() && subjects.accelerator != nullptr && !subjects.accelerator->usable();
    if (lost) report.stopped = "the device is lost since cell " + cell.name + "; those after it were not run";
    report.cells.push_back(std::move(cell));
    return !lost;
  };
  if (wanted("invalid-arguments") && !keep(check_arguments(subjects))) return;
  for (const Case& one : make_cases(options.cases, options.seed)) {
    if (wanted(one.name) && !keep(check_case(one, subjects, effort))) return;
  }
}

int judge(const Options& options, const Subjects& subjects, const Effort& effort, Report& report) {
  run_cells(options, subjects, effort, report);
  if (report.cells.empty()) return wrong_usage("--filter \"" + options.filter + "\" fits no case");
  std::string error;
  if (!write_report(report, options.report, error)) {
    return could_not_run("cannot write \"" + options.report + "\"", error);
  }
  if (!report.stopped.empty()) std::fprintf(stderr, "flashmla-gate: %s\n", report.stopped.c_str());
  print_summary(report);
  return report.passed() ? kPassed : kFailed;
}

// Why the two libraries cannot be compared; empty if they can.
std::string mismatch(const Library& library, const Library& baseline) {
  if (std::strcmp(baseline.build().variant, "padded64") != 0) {
    return "\"" + baseline.path() + "\" is no baseline: its variant is \"" + baseline.build().variant +
           "\", expected \"padded64\"";
  }
  if (std::strcmp(baseline.build().arch, library.build().arch) != 0) {
    return std::string("the two libraries do not match: one is built for ") + library.build().arch +
           ", the other for " + baseline.build().arch;
  }
  return {};
}

int run(const Options& options) {
  std::string error;
  const std::unique_ptr<Library> library = Library::open(options.library, error);
  if (library == nullptr) return could_not_run("cannot load \"" + options.library + "\"", error);
  const std::unique_ptr<Library> baseline = Library::open(options.baseline, error);
  if (baseline == nullptr) return could_not_run("cannot load \"" + options.baseline + "\"", error);
  error = mismatch(*library, *baseline);
  if (!error.empty()) return could_not_run("cannot compare", error);

  const auto processors = static_cast<int32_t>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
  const int32_t threads = options.threads > 0 ? options.threads : processors;
  Report report;
  report.library = options.library;
  report.baseline = options.baseline;
  report.library_build = library->build();
  report.baseline_build = baseline->build();
  report.seed = options.seed;
  report.cases = options.cases == CaseSet::kFull ? "full" : "quick";
  report.filter = options.filter;
  report.threads = threads;

  const bool on_device = std::strcmp(library->build().arch, "cpu") != 0;
  std::optional<Accelerator> accelerator;
  if (on_device) {
    device::Result<Accelerator> opened = open_accelerator(library->build().arch, options.device);
    if (!opened) return could_not_run("cannot use GPU " + std::to_string(options.device), opened.message());
    accelerator.emplace(std::move(*opened));
    report.device = accelerator->device.info();
  }
  // "Any number of threads" needs at least two even on one processor.
  const Context several(*library, std::max(2, threads), options.device);
  const Context single(*library, 1, options.device);
  const Context padded(*baseline, threads, options.device);
  for (const Context* context : {&several, &single, &padded}) {
    if (context->ok()) continue;
    return could_not_run("cannot start", std::string("no context can be created: ") +
                                             context->functions().status_text(context->creation_status()));
  }
  const Subjects subjects = {several, on_device ? nullptr : &single, padded, on_device ? &*accelerator : nullptr,
                             library->build().arch};
  return judge(options, subjects, {threads, options.repeats}, report);
}

}  // namespace
}  // namespace flashmla::gate

int main(int argc, char** argv) {
  using namespace flashmla::gate;
  std::string error;
  const std::optional<Options> options = parse_options(argc, argv, error);
  if (!options) return wrong_usage(error);
  if (options->help) {
    std::fputs(kUsageText, stdout);
    return kPassed;
  }
  try {
    return run(*options);
  } catch (const std::bad_alloc&) {
    return could_not_run("stopped", "out of memory");
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "flashmla-gate: internal error: %s\n", exception.what());
    return kBug;
  }
}
