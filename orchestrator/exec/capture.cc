#include "orchestrator/exec/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <thread>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/exec.h"

namespace sweep::exec {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{50};
constexpr std::chrono::microseconds kReapInterval{200};
constexpr size_t kErrorBytes = 64u << 10;

base::Unexpected<diag::Diagnostic> system_failure(const CommandSpec& command) {
  return diag::fail(diag::rule::exec_cannot_start, fmt::format("cannot start \"{}\": {}", command.argv.front(),
                                                               std::generic_category().message(errno)));
}

struct Pipe {
  base::FileDescriptor read_end;
  base::FileDescriptor write_end;

  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = base::FileDescriptor(ends[0]);
    write_end = base::FileDescriptor(ends[1]);
    return ::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
  }
};

// A file without a name: unlike a pipe it takes any amount at once, so that a child that reads late cannot block us.
base::FileDescriptor file_of(std::string_view input) {
  base::FileDescriptor file(::memfd_create("input", MFD_CLOEXEC));
  while (file.is_open() && !input.empty()) {
    const ssize_t written = ::write(file.get(), input.data(), input.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return {};
    input.remove_prefix(static_cast<size_t>(written));
  }
  if (file.is_open()) ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// Takes what is there, at most one buffer; closes the pipe at its end. Bytes past `most` are counted, not kept.
void take(base::FileDescriptor& pipe, std::string& text, uint64_t& total, uint64_t most) {
  std::array<char, 64u << 10> buffer;
  const ssize_t got = ::read(pipe.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    pipe.reset();
    return;
  }
  const auto count = static_cast<uint64_t>(got);
  const uint64_t room = most > text.size() ? most - text.size() : 0;
  text.append(buffer.data(), static_cast<size_t>(std::min(count, room)));
  total += count;
}

}  // namespace

diag::Result<Captured> capture(const CommandSpec& command, std::string_view input, const CaptureLimits& limits,
                               const std::stop_token& stop) {
  Pipe output;
  Pipe errors;
  const base::FileDescriptor in = file_of(input);
  if (!in.is_open() || !output.open() || !errors.open()) return system_failure(command);
  const auto deadline = Clock::now() + limits.time;
  auto process =
      Process::start(command, {.input = in.get(), .output = output.write_end.get(), .errors = errors.write_end.get()});
  if (!process) return diag::fail(std::move(process).error());
  output.write_end.reset();
  errors.write_end.reset();

  Captured result;
  uint64_t output_total = 0;
  uint64_t errors_total = 0;
  const auto over = [&]() -> std::optional<diag::Diagnostic> {
    if (stop.stop_requested()) return diag::make(diag::rule::exec_interrupted, "interrupted");
    if (output_total > limits.output_bytes)
      return diag::make(diag::rule::exec_output_too_large, fmt::format("\"{}\" wrote more than {} bytes and was killed",
                                                                       command.argv.front(), limits.output_bytes));
    if (Clock::now() >= deadline)
      return diag::make(diag::rule::exec_timeout, fmt::format("\"{}\" did not end within {} ms and was killed",
                                                              command.argv.front(), limits.time.count()));
    return std::nullopt;
  };
  while (output.read_end.is_open() || errors.read_end.is_open()) {
    if (auto problem = over()) return diag::fail(std::move(*problem));
    std::array<pollfd, 2> watched{{{output.read_end.get(), POLLIN, 0}, {errors.read_end.get(), POLLIN, 0}}};
    const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(kTick.count()));
    // A descendant in the background may hold the pipes open after the program itself has ended.
    if (ready == 0 && process->poll()) break;
    if (ready <= 0) continue;
    if (watched[0].revents != 0) take(output.read_end, result.output, output_total, limits.output_bytes);
    if (watched[1].revents != 0) take(errors.read_end, result.errors, errors_total, kErrorBytes);
  }
  std::optional<ExitStatus> status;
  while (!(status = process->poll())) {
    if (auto problem = over()) return diag::fail(std::move(*problem));
    std::this_thread::sleep_for(kReapInterval);
  }
  if (output_total > limits.output_bytes) return diag::fail(*over());
  result.status = *status;
  return result;
}

}  // namespace sweep::exec
