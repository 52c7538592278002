// `weights verify` against what the same machine can do:
//
//   weights-bench [--dir DIR] [--gib N] [--runs N] [--sweepctl PROGRAM]
//
// DIR is where two files of N/2 GiB (default 2 in all) are made; it should lie on the disk that the cold figures are
// for. In memory, the measure is `openssl dgst -sha256` over the same files, on one thread; cold, it is the quicker of
// what `dd` reads at best, and what can be verified from memory. The programs take turns. Medians of wall time.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/base/rng.h"
#include "tests/bench/timed_command.h"

namespace {

namespace fs = std::filesystem;
using namespace sweep::bench;

struct Options {
  fs::path dir = fs::temp_directory_path();
  double gib = 2;
  int runs = 5;
  fs::path sweepctl = fs::canonical("/proc/self/exe").parent_path() / "sweepctl";
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--dir")
      options.dir = fs::absolute(argv[i + 1]);
    else if (name == "--gib")
      options.gib = std::max(0.01, std::atof(argv[i + 1]));
    else if (name == "--runs")
      options.runs = std::max(1, std::atoi(argv[i + 1]));
    else if (name == "--sweepctl")
      options.sweepctl = fs::absolute(argv[i + 1]);
    else
      return std::nullopt;
  }
  return argc % 2 == 1 ? std::optional(options) : std::nullopt;
}

[[noreturn]] void give_up(const Command& command) {
  fmt::print(stderr, "failed: {}\n", fmt::join(command, " "));
  std::exit(3);
}

void write_random(const fs::path& path, uint64_t bytes, uint64_t seed) {
  sweep::base::SplitMix64 random(seed);
  std::ofstream file(path, std::ios::binary);
  std::vector<uint64_t> block(size_t{1} << 17);
  for (uint64_t written = 0; written < bytes; written += block.size() * sizeof(uint64_t)) {
    for (uint64_t& word : block) word = random.next();
    const uint64_t part = std::min<uint64_t>(block.size() * sizeof(uint64_t), bytes - written);
    file.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(part));
  }
  file.close();
  if (!file.good()) give_up({"write", path.string()});
}

// A shard of many small tensors, all of them F8.
void write_shard(const fs::path& path, int shard, int tensors, std::string& index_entries) {
  constexpr int kTensorBytes = 1024;
  std::string header = "{";
  for (int i = 0; i < tensors; ++i) {
    const std::string name = fmt::format("model.layers.{}.mlp.experts.{}.gate_proj.weight", shard, i);
    header += fmt::format("{}\"{}\":{{\"dtype\":\"F8_E4M3\",\"shape\":[16,64],\"data_offsets\":[{},{}]}}",
                          i == 0 ? "" : ",", name, i * kTensorBytes, (i + 1) * kTensorBytes);
    index_entries += fmt::format("{}\"{}\":\"{}\"", index_entries.empty() ? "" : ",", name, path.filename().string());
  }
  header += "}";
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  file += header + std::string(static_cast<size_t>(tensors) * kTensorBytes, '\x5a');
  if (!sweep::base::write_file_atomic(path, file)) give_up({"write", path.string()});
}

// As many shards and tensors as a model of 510 GB has.
void write_many_shards(const fs::path& dir) {
  constexpr int kShards = 48;
  constexpr int kTensors = 2002;
  std::string entries;
  for (int shard = 1; shard <= kShards; ++shard)
    write_shard(dir / fmt::format("model-{:05}-of-{:05}.safetensors", shard, kShards), shard, kTensors, entries);
  const std::string index =
      fmt::format("{{\"metadata\":{{\"total_size\":{}}},\"weight_map\":{{{}}}}}", kShards * kTensors * 1024, entries);
  if (!sweep::base::write_file_atomic(dir / "model.safetensors.index.json", index)) give_up({"write", dir.string()});
}

class Bench {
 public:
  explicit Bench(const Options& options, fs::path folder) : options_(options), folder_(std::move(folder)) {
    ::setenv("SWEEPCTL_CACHE", (folder_ / "cache").c_str(), 1);
  }

  fs::path make(const std::string& name, const std::function<void(const fs::path&)>& write) const {
    const fs::path dir = folder_ / name;
    fs::create_directory(dir);
    write(dir);
    timed({options_.sweepctl, "weights", "pin", "--from-dir", dir, "--model", "bench/" + name, "--revision",
           std::string(40, 'a'), "--output", pin_of(dir)});
    return dir;
  }

  Sample timed(const Command& command) const {
    const auto sample = run(command, folder_, folder_ / "output");
    if (!sample) give_up(command);
    return *sample;
  }

  Command verify(const fs::path& dir, unsigned threads, bool cached) const {
    Command command{options_.sweepctl,      "--quiet", "weights", "verify", dir, "--pin", pin_of(dir), "--threads",
                    std::to_string(threads)};
    if (!cached) command.push_back("--no-cache");
    return command;
  }

  static std::string pin_of(const fs::path& dir) { return dir.string() + ".pin.json"; }

 private:
  const Options& options_;
  fs::path folder_;
};

struct Contender {
  std::string name;
  std::vector<Command> commands;  // one after the other
  double measure_of = 1;          // threads
  std::vector<double> seconds = {};
};

void evict(const fs::path& dir) {
  for (const auto& entry : fs::directory_iterator(dir)) {
    const sweep::base::FileDescriptor fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    ::fdatasync(fd.get());
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

void take_turns(const Bench& bench, std::vector<Contender>& all, int rounds, const std::function<void()>& before) {
  for (int round = 0; round < rounds; ++round) {
    for (Contender& contender : all) {
      before();
      double ms = 0;
      for (const Command& command : contender.commands) ms += bench.timed(command).wall_ms;
      contender.seconds.push_back(ms / 1e3);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) {
    fmt::print(stderr, "usage: weights-bench [--dir DIR] [--gib N] [--runs N] [--sweepctl PROGRAM]\n");
    return 2;
  }
  const fs::path folder = options->dir / fmt::format("weights-bench.{}", ::getpid());
  fs::create_directory(folder);
  const Bench bench(*options, folder);
  const auto bytes = static_cast<uint64_t>(options->gib * 0.5 * (1 << 30));
  const fs::path large = bench.make("large", [&](const fs::path& dir) {
    write_random(dir / "a.safetensors.part", bytes, 1);
    write_random(dir / "b.safetensors.part", bytes, 2);
  });
  const std::vector<std::string> files{large / "a.safetensors.part", large / "b.safetensors.part"};
  const double gigabytes = 2e-9 * static_cast<double>(bytes);
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());

  std::vector<Contender> warm{{"openssl dgst -sha256", {{"openssl", "dgst", "-sha256", files[0], files[1]}}},
                              {"sha256sum", {{"sha256sum", files[0], files[1]}}}};
  std::vector<Contender> cold{{"dd bs=1M", {}}};
  for (const std::string& file : files) cold[0].commands.push_back({"dd", "if=" + file, "of=/dev/null", "bs=1M"});
  for (const unsigned threads : {1u, 2u}) {
    if (threads > cores) continue;
    const Contender verify{fmt::format("weights verify --threads {}", threads),
                           {bench.verify(large, threads, false)},
                           static_cast<double>(threads)};
    warm.push_back(verify);
    cold.push_back(verify);
  }
  fmt::print("{}; {:.2f} GB in two files; {} rounds\n", machine(), gigabytes, options->runs);

  take_turns(bench, warm, 1, [] {});  // brings the files into memory
  for (Contender& contender : warm) contender.seconds.clear();
  take_turns(bench, warm, options->runs, [] {});
  const double single = gigabytes / median(warm[0].seconds);
  fmt::print("\n{:<28} {:>8} {:>30}\n", "in memory", "GB/s", "/ (threads x openssl dgst)");
  for (const Contender& c : warm)
    fmt::print("{:<28} {:>8.2f} {:>30.2f}\n", c.name, gigabytes / median(c.seconds),
               gigabytes / median(c.seconds) / (c.measure_of * single));

  take_turns(bench, cold, options->runs, [&] { evict(large); });
  const double disk = gigabytes / *std::min_element(cold[0].seconds.begin(), cold[0].seconds.end());
  fmt::print("\n{:<28} {:>8} {:>8} {:>21}\n", "cold", "GB/s", "best", "/ min(dd, in memory)");
  for (size_t i = 0; i < cold.size(); ++i) {
    const double rate = gigabytes / median(cold[i].seconds);
    const double best = gigabytes / *std::min_element(cold[i].seconds.begin(), cold[i].seconds.end());
    // The verifying contenders come last in both lists, in the same order.
    const double limit =
        i == 0 ? disk : std::min(disk, gigabytes / median(warm[warm.size() - cold.size() + i].seconds));
    fmt::print("{:<28} {:>8.2f} {:>8.2f} {:>21.2f}\n", cold[i].name, rate, best, rate / limit);
  }

  const fs::path many = bench.make("many", write_many_shards);
  constexpr int kQuickRuns = 20;
  std::this_thread::sleep_for(std::chrono::seconds(3));  // so that the stamps may be relied on
  const double first = bench.timed(bench.verify(many, 0, true)).wall_ms;
  std::vector<double> again;
  for (int i = 0; i < kQuickRuns; ++i) again.push_back(bench.timed(bench.verify(many, 0, true)).wall_ms);
  fmt::print("\n48 shards, 96,096 tensors: first {:.0f} ms, unchanged {:.1f} ms (median of {}, whole command)\n", first,
             median(again), kQuickRuns);

  const fs::path small = bench.make("small", [&](const fs::path& dir) {
    write_random(dir / "a.safetensors.part", bytes / 32, 1);
    write_random(dir / "b.safetensors.part", bytes / 32, 2);
  });
  fmt::print("largest resident size: {:.1f} MiB for {:.2f} GB, {:.1f} MiB for {:.2f} GB\n",
             bench.timed(bench.verify(large, 2, false)).rss_mib, gigabytes,
             bench.timed(bench.verify(small, 2, false)).rss_mib, gigabytes / 32);
  fs::remove_all(folder);
  return 0;
}
