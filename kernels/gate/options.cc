#include "kernels/gate/options.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace flashmla::gate {

const char* const kUsageText =
    "usage: flashmla-gate --library LIB --baseline LIB --report OUT.json [options]\n"
    "\n"
    "Compares a kernel library with a double-precision oracle and with the padded build of the same source. A library\n"
    "built for a GPU runs on one; this needs its driver, and nothing else of CUDA.\n"
    "\n"
    "  --library LIB     the shared library to judge\n"
    "  --baseline LIB    the build that pads heads to a multiple of 64 (variant \"padded64\")\n"
    "  --report FILE     where the JSON report goes\n"
    "  --cases SET       quick (seconds; the default) or full\n"
    "  --filter TEXT     only the cases with TEXT in their name\n"
    "  --case-repeat N   runs of each case after the first, all to give the same bytes; default: 1 on the CPU, 100 on\n"
    "                    a GPU, 10 there where the outputs are larger than 256 KiB\n"
    "  --seed N          of the generated data and the random cases; default 1\n"
    "  --threads N       threads of the oracle, and of a CPU library in its multi-threaded runs; default: all\n"
    "  --device N        which GPU; default 0\n"
    "\n"
    "exit status: 0 passed, 4 failed (the cells are named on stderr), 3 could not run, 2 wrong usage\n";

namespace {

bool parse_number(const char* text, uint64_t highest, uint64_t& number) {
  if (*text < '0' || *text > '9') return false;
  char* end = nullptr;
  errno = 0;
  number = std::strtoull(text, &end, 10);
  return errno == 0 && *end == '\0' && number <= highest;
}

void parse_count(const std::string& name, const char* value, uint64_t highest, int32_t& count, std::string& error) {
  uint64_t number = 0;
  if (!parse_number(value, highest, number)) error = name + " expects a number up to " + std::to_string(highest);
  count = static_cast<int32_t>(number);
}

// One "--name value"; false with a message if it makes no sense.
bool parse_option(const std::string& name, const char* value, Options& options, std::string& error) {
  if (name == "--library") {
    options.library = value;
  } else if (name == "--baseline") {
    options.baseline = value;
  } else if (name == "--report") {
    options.report = value;
  } else if (name == "--filter") {
    options.filter = value;
  } else if (name == "--cases") {
    if (std::strcmp(value, "quick") != 0 && std::strcmp(value, "full") != 0) {
      error = std::string("--cases is \"") + value + "\", expected quick or full";
      return false;
    }
    options.cases = std::strcmp(value, "full") == 0 ? CaseSet::kFull : CaseSet::kQuick;
  } else if (name == "--seed") {
    if (!parse_number(value, UINT64_MAX, options.seed)) error = "--seed expects a number";
  } else if (name == "--threads") {
    parse_count(name, value, 1024, options.threads, error);
  } else if (name == "--device") {
    parse_count(name, value, 1023, options.device, error);
  } else if (name == "--case-repeat") {
    parse_count(name, value, 1000000, options.repeats, error);
    if (error.empty() && options.repeats == 0) error = "--case-repeat expects a number from 1";
  } else {
    error = "unknown option \"" + name + "\"";
  }
  return error.empty();
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, std::string& error) {
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

}  // namespace flashmla::gate
