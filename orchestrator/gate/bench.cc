#include "orchestrator/gate/bench.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <string_view>
#include <system_error>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/kernels.h"
#include "orchestrator/exec/process.h"

namespace sweep::gate {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;

constexpr std::chrono::minutes kLimit{30};
// The program's own exit codes.
constexpr int kUsage = 2;
constexpr int kNotAll = 3;

bool wants_transition(const BenchRequest& request) {
  return std::find(request.sections.begin(), request.sections.end(), "transition") != request.sections.end();
}

std::vector<std::string> arguments(const KernelBuild& build, const BenchRequest& request, const BenchReport& report) {
  std::vector<std::string> argv{request.program.string(), "--json", report.path.string()};
  const auto add = [&argv](const char* name, const std::string& value) {
    if (value.empty()) return;
    argv.emplace_back(name);
    argv.push_back(value);
  };
  add("--shape", request.shape);
  if (!is_cuda(build.arch)) return argv;
  add("--library", build.library.string());
  add("--plain-read", build.plain_read.string());
  add("--section", fmt::format("{}", fmt::join(request.sections, ",")));
  add("--heads", fmt::format("{}", fmt::join(request.heads, ",")));
  if (request.replays > 0) add("--replays", std::to_string(request.replays));
  if (request.quick) argv.emplace_back("--quick");
  if (!report.plot.empty()) {
    add("--baseline", build.baseline.string());
    add("--plot", report.plot.string());
  }
  return argv;
}

// A line of what the program said, without its name.
std::string spoken(std::string line) {
  constexpr std::string_view kProgram = "flashmla-bench: ";
  if (line.starts_with(kProgram)) line.erase(0, kProgram.size());
  return line;
}

std::vector<std::string> lines_of(const fs::path& log) {
  const auto text = base::read_file(log, uint64_t{1} << 26);
  std::vector<std::string> lines;
  std::string line;
  for (std::istringstream rest(text ? *text : ""); std::getline(rest, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

diag::Result<exec::ExitStatus> run_program(const std::vector<std::string>& argv, const BenchRequest& request,
                                           const fs::path& log, const std::stop_token& stop) {
  const base::FileDescriptor errors(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!errors.is_open()) return diag::fail(rule::file_unwritable, base::IoError{"open", log, errno}.text());
  auto process = exec::Process::start(
      {.argv = argv}, {.output = request.table >= 0 ? request.table : errors.get(), .errors = errors.get()});
  if (!process) return diag::fail(process.error());
  if (const auto status = process->wait(kLimit, stop)) return *status;
  process->stop(std::chrono::seconds{2});
  if (stop.stop_requested()) return diag::fail(rule::exec_interrupted, "the benchmark was interrupted");
  return diag::fail(rule::exec_timeout, fmt::format("the benchmark did not end within {} minutes", kLimit.count()));
}

}  // namespace

diag::Result<BenchReport> run_bench(const KernelBuild& build, const BenchRequest& request,
                                    const std::stop_token& stop) {
  const int64_t begin = base::monotonic_ns();
  BenchReport report;
  report.path = request.folder / "bench.json";
  report.log = request.folder / "bench.log";
  if (is_cuda(build.arch) && wants_transition(request)) report.plot = request.folder / "transition.svg";
  std::error_code ignored;
  fs::remove(report.path, ignored);
  if (!report.plot.empty()) fs::remove(report.plot, ignored);

  const auto status = run_program(arguments(build, request, report), request, report.log, stop);
  if (!status) return diag::fail(status.error());
  const std::vector<std::string> lines = lines_of(report.log);
  // A complaint stands before the usage text, a failure at the end.
  if (status->signal == 0 && status->code == kUsage)
    return diag::fail(rule::kernels_bench_usage, lines.empty() ? "wrong usage" : spoken(lines.front()),
                      "`sweepctl kernels bench --help` lists the options");
  const auto broken = [&](const std::string& what) {
    return diag::fail(rule::kernels_bench_broken, what, fmt::format("read {}", report.log.string()));
  };
  const bool not_all = status->signal == 0 && status->code == kNotAll;
  if (!status->ok() && !not_all) return broken(fmt::format("the benchmark ended with {}", status->text()));
  if (not_all && !lines.empty()) report.problem = spoken(lines.back());
  const auto text = base::read_file(report.path);
  if (!text) return broken(report.problem.empty() ? "the benchmark wrote no figures" : report.problem);
  report.document = nlohmann::json::parse(*text, nullptr, false);
  if (!report.document.is_object() || !report.document.contains("shapes") || !report.document["shapes"].is_array())
    return broken("the benchmark wrote figures that cannot be understood");
  report.complete = status->ok() && report.document.value("complete", nlohmann::json()) == true;
  if (status->ok() && !report.complete)
    return broken("the benchmark exited with success but its figures do not say so");
  // The digests of what was measured go with the figures.
  report.document["kernels"] = to_json(build);
  if (const auto written = base::write_file_atomic(report.path, report.document.dump(2) + "\n"); !written)
    return diag::fail(rule::file_unwritable, written.error().text());
  report.seconds = static_cast<double>(base::monotonic_ns() - begin) * 1e-9;
  return report;
}

}  // namespace sweep::gate
