// sweepctl-fault-server --mode MODE --port-file FILE [--model NAME] [--acceptance-length X] [--step-ms N]
// Serves until SIGINT or SIGTERM. The port is written to FILE once connections are accepted.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "orchestrator/base/file.h"
#include "tests/support/fault_engine.h"

namespace {

constexpr int kUsageError = 2;
constexpr int kDied = 9;

int usage() {
  fmt::print(stderr,
             "usage: sweepctl-fault-server --mode MODE --port-file FILE [--model NAME] [--acceptance-length X] "
             "[--step-ms N]\nmodes: {}\n",
             fmt::join(sweep::test::fault_names(), ", "));
  return kUsageError;
}

}  // namespace

int main(int argc, char** argv) {
  sweep::test::FaultEngineOptions options;
  options.die = [] { ::_exit(kDied); };
  std::string port_file;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--mode") {
      const auto fault = sweep::test::parse_fault(value);
      if (!fault) return usage();
      options.fault = *fault;
    } else if (name == "--port-file") {
      port_file = value;
    } else if (name == "--model") {
      options.model = value;
    } else if (name == "--acceptance-length") {
      options.acceptance_length = std::strtod(value.c_str(), nullptr);
    } else if (name == "--step-ms") {
      options.step = std::chrono::milliseconds(std::strtol(value.c_str(), nullptr, 10));
    } else {
      return usage();
    }
  }
  if (argc % 2 == 0 || port_file.empty()) return usage();

  // Blocked before any thread exists, so that only sigwait below takes them.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  const sweep::test::FaultEngine engine(options);
  const auto written = sweep::base::write_file_atomic(port_file, fmt::format("{}\n", engine.port()));
  if (!written) {
    fmt::print(stderr, "{}\n", written.error().text());
    return EXIT_FAILURE;
  }
  int signal = 0;
  sigwait(&ends, &signal);
  return EXIT_SUCCESS;
}
