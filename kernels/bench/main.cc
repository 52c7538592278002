// flashmla-bench: times decode, of the CPU backend on this machine or of a CUDA library on a GPU.
#include <cstdio>
#include <exception>
#include <new>
#include <variant>

#include "kernels/bench/cpu_mode.h"
#include "kernels/bench/device_mode.h"
#include "kernels/bench/options.h"

namespace flashmla::bench {
namespace {

enum Exit { kDone = 0, kUsageError = 2, kCouldNotRun = 3, kBug = 70 };

int run(const Options& options) {
  if (const auto* device = std::get_if<DeviceOptions>(&options)) return run_device_mode(*device);
  if (const auto* cpu = std::get_if<CpuOptions>(&options)) return run_cpu_mode(*cpu);
  if (const auto* bad = std::get_if<BadOptions>(&options)) {
    std::fprintf(stderr, "flashmla-bench: %s\n\n%s", bad->message.c_str(), kUsage);
    return kUsageError;
  }
  std::fputs(kUsage, stdout);
  return kDone;
}

}  // namespace
}  // namespace flashmla::bench

int main(int argc, char** argv) {
  using namespace flashmla::bench;
  try {
    return run(parse_options(argc, argv));
  } catch (const std::bad_alloc&) {
    std::fputs("flashmla-bench: out of memory\n", stderr);
    return kCouldNotRun;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "flashmla-bench: internal error: %s\n", exception.what());
    return kBug;
  }
}
