// flashmla-gate: decides whether a kernel library may be used.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "kernels/gate/cases.h"
#include "kernels/gate/checks.h"
#include "kernels/gate/library.h"
#include "kernels/gate/report.h"

namespace flashmla::gate {
namespace {

enum Exit { kPassed = 0, kUsage = 2, kCouldNotRun = 3, kFailed = 4, kBug = 70 };

constexpr const char* kUsageText =
    "usage: flashmla-gate --library LIB --baseline LIB --report OUT.json [options]\n"
    "\n"
    "Compares a kernel library with a double-precision oracle and with the padded build of the same source.\n"
    "\n"
    "  --library LIB     the shared library to judge\n"
    "  --baseline LIB    the build that pads heads to a multiple of 64 (variant \"padded64\")\n"
    "  --report FILE     where the JSON report goes\n"
    "  --cases SET       quick (seconds; the default) or full\n"
    "  --seed N          of the generated data and the random cases; default 1\n"
    "  --threads N       threads of the library in its multi-threaded runs, and of the oracle; default: all\n"
    "\n"
    "exit status: 0 passed, 4 failed (the cells are named on stderr), 3 could not run, 2 wrong usage\n";

struct Options {
  std::string library, baseline, report;
  CaseSet cases = CaseSet::kQuick;
  uint64_t seed = 1;
  int32_t threads = 0;
  bool help = false;
};

bool parse_number(const char* text, uint64_t highest, uint64_t& number) {
  if (*text < '0' || *text > '9') return false;
  char* end = nullptr;
  errno = 0;
  number = std::strtoull(text, &end, 10);
  return errno == 0 && *end == '\0' && number <= highest;
}

// One "--name value"; false with a message if it makes no sense.
bool parse_option(const std::string& name, const char* value, Options& options, std::string& error) {
  uint64_t number = 0;
  if (name == "--library") {
    options.library = value;
  } else if (name == "--baseline") {
    options.baseline = value;
  } else if (name == "--report") {
    options.report = value;
  } else if (name == "--cases") {
    if (std::strcmp(value, "quick") != 0 && std::strcmp(value, "full") != 0) {
      error = std::string("--cases is \"") + value + "\", expected quick or full";
      return false;
    }
    options.cases = std::strcmp(value, "full") == 0 ? CaseSet::kFull : CaseSet::kQuick;
  } else if (name == "--seed") {
    if (!parse_number(value, UINT64_MAX, options.seed)) error = "--seed expects a number";
  } else if (name == "--threads") {
    if (!parse_number(value, 1024, number)) error = "--threads expects a number up to 1024";
    options.threads = static_cast<int32_t>(number);
  } else {
    error = "unknown option \"" + name + "\"";
  }
  return error.empty();
}

std::optional<Options> parse(int argc, char** argv, std::string& error) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    if (i + 1 == argc) {
      error = name.rfind("--", 0) == 0 ? name + " expects a value" : "unexpected argument \"" + name + "\"";
      return std::nullopt;
    }
    if (!parse_option(name, argv[++i], options, error)) return std::nullopt;
  }
  if (options.library.empty() || options.baseline.empty() || options.report.empty()) {
    error = "--library, --baseline and --report are required";
    return std::nullopt;
  }
  return options;
}

int could_not_run(const std::string& what, const std::string& why) {
  std::fprintf(stderr, "flashmla-gate: %s: %s\n", what.c_str(), why.c_str());
  return kCouldNotRun;
}

void print_failures(const Cell& cell) {
  for (const Failure& failure : cell.failures) {
    std::fprintf(stderr, "flashmla-gate: cell %s (%s): %s: %s\n", cell.name.c_str(), cell.shape.c_str(),
                 failure.check.c_str(), failure.message.c_str());
  }
}

int run(const Options& options) {
  std::string error;
  const std::unique_ptr<Library> library = Library::open(options.library, error);
  if (library == nullptr) return could_not_run("cannot load \"" + options.library + "\"", error);
  const std::unique_ptr<Library> baseline = Library::open(options.baseline, error);
  if (baseline == nullptr) return could_not_run("cannot load \"" + options.baseline + "\"", error);
  if (std::strcmp(baseline->build().variant, "padded64") != 0) {
    return could_not_run("\"" + options.baseline + "\" is no baseline",
                         std::string("its variant is \"") + baseline->build().variant + "\", expected \"padded64\"");
  }
  if (std::strcmp(baseline->build().arch, library->build().arch) != 0) {
    return could_not_run("the two libraries do not match", std::string("one is built for ") + library->build().arch +
                                                               ", the other for " + baseline->build().arch);
  }
  const auto processors = static_cast<int32_t>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
  const int32_t threads = options.threads > 0 ? options.threads : processors;
  // "Any number of threads" needs at least two even on one processor.
  const Context several(*library, std::max(2, threads));
  const Context single(*library, 1);
  const Context padded(*baseline, threads);
  if (!several.ok() || !single.ok() || !padded.ok()) return could_not_run("cannot start", "no context can be created");

  Report report;
  report.library = options.library;
  report.baseline = options.baseline;
  report.library_build = library->build();
  report.baseline_build = baseline->build();
  report.seed = options.seed;
  report.cases = options.cases == CaseSet::kFull ? "full" : "quick";
  report.threads = threads;
  report.cells.push_back(check_arguments(several));
  print_failures(report.cells.back());
  for (const Case& one : make_cases(options.cases, options.seed)) {
    report.cells.push_back(check_case(one, {several, single, padded}, report.tolerance, threads));
    print_failures(report.cells.back());
  }
  if (!write_report(report, options.report, error)) {
    return could_not_run("cannot write \"" + options.report + "\"", error);
  }
  std::printf("flashmla-gate: %s, %zu cells, %s (%s, %s)\n", report.passed() ? "passed" : "FAILED", report.cells.size(),
              report.library_build.arch, report.library_build.variant, report.library_build.isa);
  return report.passed() ? kPassed : kFailed;
}

}  // namespace
}  // namespace flashmla::gate

int main(int argc, char** argv) {
  using namespace flashmla::gate;
  std::string error;
  const std::optional<Options> options = parse(argc, argv, error);
  if (!options) {
    std::fprintf(stderr, "flashmla-gate: %s\n\n%s", error.c_str(), kUsageText);
    return kUsage;
  }
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
