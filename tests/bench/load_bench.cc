// How true the load client's times are, and what it costs:
//
//   load-bench [--runs N] [--seconds S] [--python PROGRAM] [--only TEXT]
//
// A process of its own streams chunks on a schedule and notes when it wrote each (chunk_server.h). The client is the
// one that `run` uses. The error of a chunk is its receive time minus its send time; the way through the loopback
// interface is part of it. "merged" is the share of chunks that were read together with a later one of the same stream,
// and so got its time: a client that falls behind shows there, and in the rate. The same is asked of a client in
// Python's asyncio (asyncio_client.py). Medians of the runs.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "orchestrator/loadgen/closed_loop.h"
#include "orchestrator/loadgen/prompt.h"
#include "tests/bench/chunk_server.h"
#include "tests/bench/timed_command.h"

namespace {

namespace fs = std::filesystem;
using namespace sweep::bench;
namespace loadgen = sweep::loadgen;
namespace sample = sweep::sample;

struct Options {
  int runs = 5;
  double seconds = 2;
  std::string python = "python3";
  std::string only;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--runs")
      options.runs = std::max(1, std::atoi(argv[i + 1]));
    else if (name == "--seconds")
      options.seconds = std::max(0.1, std::atof(argv[i + 1]));
    else if (name == "--python")
      options.python = argv[i + 1];
    else if (name == "--only")
      options.only = argv[i + 1];
    else
      return std::nullopt;
  }
  return argc % 2 == 1 ? std::optional(options) : std::nullopt;
}

[[noreturn]] void give_up(const std::string& what) {
  fmt::print(stderr, "failed: {}\n", what);
  std::exit(3);
}

// What a client says of one stream: when it received each token.
using TokenTimes = std::vector<int64_t>;

struct Outcome {
  std::vector<TokenTimes> streams;  // in the order of the seeds
  double cpu_seconds = 0;
  double wall_seconds = 0;
};

struct Figures {
  double sent_rate = 0;  // chunks per second
  double received_rate = 0;
  double merged = 0;  // share
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
  double min_us = 0;  // below 0: a time before the chunk was written
  double cpu = 0;     // share of one core
};

double rate(const std::vector<int64_t>& times) {
  const auto [first, last] = std::minmax_element(times.begin(), times.end());
  return static_cast<double>(times.size()) * 1e9 / std::max(1.0, static_cast<double>(*last - *first));
}

Figures figures_of(const ChunkServer& server, const Outcome& outcome) {
  std::vector<double> errors_us;
  std::vector<int64_t> sent;
  std::vector<int64_t> received;
  double merged = 0;
  for (size_t n = 0; n < outcome.streams.size(); ++n) {
    const TokenTimes& times = outcome.streams[n];
    const auto sent_ns = server.sent_ns(n);
    if (times.size() != sent_ns.size()) give_up(fmt::format("stream {} has {} chunks", n, times.size()));
    for (size_t i = 0; i < times.size(); ++i) {
      sent.push_back(sent_ns[i]);
      received.push_back(times[i]);
      errors_us.push_back(static_cast<double>(times[i] - sent_ns[i]) * 1e-3);
      if (i + 1 < times.size() && times[i] == times[i + 1]) ++merged;
    }
  }
  const double least = *std::min_element(errors_us.begin(), errors_us.end());
  for (double& error : errors_us) error = std::abs(error);
  std::sort(errors_us.begin(), errors_us.end());
  const auto at = [&](double share) {
    return errors_us[static_cast<size_t>(share * static_cast<double>(errors_us.size() - 1))];
  };
  return {.sent_rate = rate(sent),
          .received_rate = rate(received),
          .merged = merged / static_cast<double>(errors_us.size()),
          .p50_us = at(0.5),
          .p99_us = at(0.99),
          .max_us = at(1),
          .min_us = least,
          .cpu = outcome.cpu_seconds / outcome.wall_seconds};
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

loadgen::LoadSpec spec_of(const Schedule& schedule) {
  return {.job = "bench",
          .base_url = {},
          .model = "bench",
          .isl = 64,
          .osl = schedule.chunks,
          .concurrency = schedule.streams,
          .requests = schedule.streams,
          .prompt_tokens = {.begin = 10, .end = 1000},
          .seed = 1};
}

Figures measure_product(const Schedule& schedule) {
  loadgen::LoadSpec spec = spec_of(schedule);
  std::vector<uint64_t> seeds;
  for (int i = 0; i < schedule.streams; ++i)
    seeds.push_back(loadgen::prompt_seed(spec.seed, sample::Phase::kMeasured, i) & 0x7fffffff);
  const ChunkServer server(schedule, seeds);
  spec.base_url = fmt::format("http://127.0.0.1:{}", server.port());
  const double cpu = cpu_seconds();
  const int64_t begin_ns = sweep::base::monotonic_ns();
  const auto measurement = loadgen::run_closed_loop(
      spec, [](const sample::Sample&) -> sweep::diag::Result<sweep::diag::Done> { return sweep::diag::Done{}; });
  Outcome outcome{.streams = std::vector<TokenTimes>(seeds.size()),
                  .cpu_seconds = cpu_seconds() - cpu,
                  .wall_seconds = static_cast<double>(sweep::base::monotonic_ns() - begin_ns) * 1e-9};
  if (!measurement) give_up(measurement.error().message);
  // Joined events are a warning, and a column of the table.
  for (const auto& problem : measurement->problems.items())
    if (problem.severity == sweep::diag::Severity::kError) give_up(problem.message);
  for (const sample::Sample& one : measurement->samples)
    for (const sample::Chunk& chunk : one.chunks)
      outcome.streams[static_cast<size_t>(one.sequence)].insert(
          outcome.streams[static_cast<size_t>(one.sequence)].end(), static_cast<size_t>(chunk.tokens.value_or(0)),
          chunk.ns);
  return figures_of(server, outcome);
}

// Nothing without a Python that runs.
std::optional<Figures> measure_asyncio(const Schedule& schedule, const std::string& python, const fs::path& output) {
  std::vector<uint64_t> seeds;
  for (int i = 0; i < schedule.streams; ++i) seeds.push_back(static_cast<uint64_t>(i));
  const ChunkServer server(schedule, seeds);
  const auto script = fs::path(SWEEPCTL_SOURCE_DIR) / "tests" / "bench" / "asyncio_client.py";
  const auto ran = run({python, script, std::to_string(server.port()), std::to_string(schedule.streams), "0"},
                       output.parent_path(), output);
  if (!ran) return std::nullopt;
  Outcome outcome;
  std::ifstream file(output);
  std::string line;
  if (!std::getline(file, line) || !(std::istringstream(line) >> outcome.cpu_seconds >> outcome.wall_seconds))
    return std::nullopt;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    TokenTimes& times = outcome.streams.emplace_back();
    for (int64_t ns = 0; words >> ns;) times.push_back(ns);
  }
  if (outcome.streams.size() != seeds.size()) return std::nullopt;
  return figures_of(server, outcome);
}

struct Case {
  std::string name;
  Schedule schedule;
  bool asyncio = false;
};

std::vector<Case> cases_for(double seconds) {
  std::vector<Case> cases;
  const auto add = [&](std::string name, int streams, int64_t interval_us, bool together) {
    const int chunks = std::max(2, static_cast<int>(seconds * 1e6 / static_cast<double>(interval_us)));
    for (const bool asyncio : {false, true})
      cases.push_back({(asyncio ? "asyncio: " : "") + name,
                       {.streams = streams, .chunks = chunks, .interval_us = interval_us, .together = together},
                       asyncio});
  };
  add("64 x 1 ms, together", 64, 1000, true);
  add("64 x 1 ms, spread", 64, 1000, false);
  add("1024 x 20 ms, together", 1024, 20'000, true);
  add("1024 x 20 ms, spread", 1024, 20'000, false);
  add("1 x 5 ms", 1, 5000, true);
  return cases;
}

Figures medians(const std::vector<Figures>& runs) {
  const auto of = [&](double Figures::*field) {
    std::vector<double> values;
    for (const Figures& one : runs) values.push_back(one.*field);
    return median(std::move(values));
  };
  return {.sent_rate = of(&Figures::sent_rate),
          .received_rate = of(&Figures::received_rate),
          .merged = of(&Figures::merged),
          .p50_us = of(&Figures::p50_us),
          .p99_us = of(&Figures::p99_us),
          .max_us = of(&Figures::max_us),
          .min_us = of(&Figures::min_us),
          .cpu = of(&Figures::cpu)};
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) {
    fmt::print(stderr, "usage: load-bench [--runs N] [--seconds S] [--python PROGRAM] [--only TEXT]\n");
    return 2;
  }
  const fs::path output = fs::temp_directory_path() / fmt::format("load-bench.{}", ::getpid());
  fmt::print("{}; {} runs of {} s\n\n", machine(), options->runs, options->seconds);
  fmt::print("{:<32} {:>9} {:>9} {:>9} {:>7} {:>8} {:>8} {:>8} {:>8} {:>6}\n", "", "asked/s", "sent/s", "recvd/s",
             "merged", "min us", "p50 us", "p99 us", "max us", "CPU");
  std::optional<Figures> product;
  for (const Case& one : cases_for(options->seconds)) {
    if (one.name.find(options->only) == std::string::npos) continue;
    std::vector<Figures> runs;
    for (int i = 0; i < options->runs; ++i) {
      const auto figures = one.asyncio ? measure_asyncio(one.schedule, options->python, output)
                                       : std::optional(measure_product(one.schedule));
      if (figures) runs.push_back(*figures);
    }
    if (runs.empty()) {
      fmt::print("{:<32} did not run\n", one.name);
      continue;
    }
    const Figures f = medians(runs);
    fmt::print("{:<32} {:>9.0f} {:>9.0f} {:>9.0f} {:>6.1f}% {:>8.1f} {:>8.1f} {:>8.1f} {:>8.0f} {:>5.1f}%", one.name,
               one.schedule.streams * 1e6 / static_cast<double>(one.schedule.interval_us), f.sent_rate, f.received_rate,
               100 * f.merged, f.min_us, f.p50_us, f.p99_us, f.max_us, 100 * f.cpu);
    if (one.asyncio && product)
      fmt::print("   p99 x {:.1f}, CPU x {:.1f}", f.p99_us / product->p99_us, f.cpu / product->cpu);
    fmt::print("\n");
    std::fflush(stdout);
    if (!one.asyncio) product = f;
  }
  fs::remove(output);
  return 0;
}
