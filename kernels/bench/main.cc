// flashmla-bench: times decode, of the CPU backend on this machine or of a CUDA library on a GPU.
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "kernels/bench/cpu_mode.h"
#include "kernels/bench/device_mode.h"

namespace {

constexpr const char* kUsage =
    "usage: flashmla-bench [--shape NAME] [--threads N] [--repeats N] [--no-reference]\n"
    "       flashmla-bench --library LIB --plain-read CUBIN [options]\n"
    "\n"
    "The first form times the CPU backend: median time of sparse decode at an engine's shapes and GFLOP/s (score and\n"
    "value products only). What a core does is taken from processor time, so that other processes disturb it little:\n"
    "its rate, the share of the multiply-add peak measured in this run, and how much faster than the plain C++\n"
    "reference it is.\n"
    "\n"
    "The second form times a CUDA library: microseconds a call in graph replays, cold (disjoint KV pools of more than\n"
    "220 MB in turn) and warm, beside a kernel that only reads the same bytes and beside upstream's recorded times.\n"
    "\n"
    "  --library LIB      libflashmla-ARCH.so\n"
    "  --plain-read FILE  flashmla-plain-read-ARCH.cubin\n"
    "  --json FILE        where the figures go\n"
    "  --section S,...    A: V4 128+512, 128+1024; B: V3.2 2048; C: dense; F: V4 window and small extra sets;\n"
    "                     N: V4.1; transition: native against padded heads by query rows. Default: A,B,F,C\n"
    "  --shape TEXT       only shapes with TEXT in their names\n"
    "  --heads N,...      instead of the heads a section has by default\n"
    "  --replays N        of each graph; default 7\n"
    "  --quick            a few shapes of each section\n"
    "  --baseline LIB     libflashmla-ARCH-padded64.so, for the transition\n"
    "  --plot FILE.svg    of the transition\n"
    "\n"
    "exit status: 0 measured, 3 could not run, 2 wrong usage\n";

int usage(const std::string& error) {
  if (!error.empty()) std::fprintf(stderr, "flashmla-bench: %s\n\n", error.c_str());
  std::fputs(kUsage, stderr);
  return flashmla::bench::kUsageExit;
}

int run(int argc, char** argv) {
  bool device = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    device = device || std::strcmp(argv[i], "--library") == 0;
  }
  if (!device) {
    const int status = flashmla::bench::run_cpu_mode(argc, argv);
    return status == flashmla::bench::kUsageExit ? usage("") : status;
  }
  std::string error;
  const auto options = flashmla::bench::parse_device_options(argc, argv, error);
  return options ? flashmla::bench::run_device_mode(*options) : usage(error);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("flashmla-bench: out of memory\n", stderr);
    return 3;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "flashmla-bench: internal error: %s\n", exception.what());
    return 70;
  }
}
