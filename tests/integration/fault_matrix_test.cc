// Every way in which an engine fails, for every engine: the true reason, no result or an invalid one, and no process
// left. The engines are doubles (tests/support/engine_double.h) in real processes; launching, measuring and judging are
// the product's.
#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include "orchestrator/base/file.h"
#include "tests/integration/engine_row.h"
#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/support/fake_nvml.h"

using namespace sweep;
using namespace sweep::test;
namespace fs = std::filesystem;

namespace {

using nlohmann::json;
using pipeline::Stage;

constexpr int kNoResult = 3;
constexpr int kInvalid = 5;

struct Expected {
  Mishap mishap;
  int code;
  std::string_view rule;  // of the error, or of the only failed condition
  std::string_view text;  // part of the reason
};

// The same for every engine.
constexpr auto kEveryEngine = std::to_array<Expected>({
    {Mishap::kNone, 0, "", ""},
    {Mishap::kDieBeforeReady, kNoResult, "engine/died",
     "exit status 1; its log says: ValueError: the checkpoint has no draft head"},
    {Mishap::kMemoryBeforeReady, kNoResult, "engine/out-of-memory", "CUDA out of memory. Tried to allocate 20.00 GiB"},
    {Mishap::kPortInLog, kNoResult, "engine/port-taken", "address already in use"},
    {Mishap::kDeviceError, kNoResult, "engine/device-error", "an illegal memory access"},
    {Mishap::kWrongModel, kNoResult, "engine/wrong-model", "other/model"},
    {Mishap::kProbeError, kNoResult, "", "status 500"},
    {Mishap::kDieMidRun, kNoResult, "engine/died", "exit status 1"},
    {Mishap::kKilledMidRun, kNoResult, "engine/died", "killed by signal 9"},
    {Mishap::kMemoryMidRun, kNoResult, "engine/out-of-memory", "CUDA out of memory"},
    {Mishap::kDieAfter, kNoResult, "engine/died", "exit status 1"},
    {Mishap::kErrorLogged, kInvalid, "judge/engine-log", "OutOfMemoryError: CUDA out of memory"},
    {Mishap::kShort, kInvalid, "judge/lengths", "63 output tokens by usage"},
    {Mishap::kLong, kInvalid, "judge/lengths", "65 output tokens by usage"},
    {Mishap::kPromptShort, kInvalid, "judge/lengths", "63 prompt tokens (asked 64)"},
    {Mishap::kAcceptanceOff, kInvalid, "judge/acceptance", "realised acceptance length 4.2"},
    {Mishap::kDeadDraft, kInvalid, "judge/dead-draft", "the draft head is dead"},
    {Mishap::kCached, kInvalid, "judge/prefix-cache", "prompt tokens from a prefix cache: 128 by usage"},
    {Mishap::kCompileInWindow, kInvalid, "judge/jit", "DeepGEMM JIT compilation"},
    {Mishap::kCompileInWarmUp, 0, "", ""},
    {Mishap::kRestarted, kInvalid, "judge/counters", ""},
    {Mishap::kNoCounters, kInvalid, "judge/counters", "could not be read"},
    {Mishap::kOtherClient, kInvalid, "judge/counters", "these requests"},
});

void check_row(const Expected& expected, const RowResult& found) {
  INFO(found.found());
  CHECK(found.code == expected.code);
  CHECK(contains(found.found(), expected.text));
  CHECK(found.left.empty());
  if (expected.code == kNoResult && !expected.rule.empty()) CHECK(found.rule == expected.rule);
  if (expected.code != kInvalid) return;
  CHECK(found.result["valid"] == false);
  CHECK(found.failed.contains(std::string(expected.rule)));
  CHECK(found.result["reasons"].size() == found.failed.size());
}

// A row in which only one condition may fail says so.
void check_only(const RowResult& found, const std::set<std::string>& failed) {
  INFO(found.found());
  CHECK(found.failed == failed);
}

EngineRows& rows() {
  static EngineRows all;
  return all;
}

}  // namespace

TEST_CASE("fault matrix: each failure of each engine has its own true reason, and leaves no process") {
  const std::string framework = GENERATE(as<std::string>(), "sglang", "vllm", "trtllm", "atom");
  for (const Expected& expected : kEveryEngine) {
    INFO(framework << " " << mishap_name(expected.mishap));
    check_row(expected, rows().run({.framework = framework, .mishap = expected.mishap}));
  }
}

TEST_CASE("fault matrix: what is read back is what the engine did, whatever its dialect") {
  const std::string framework = GENERATE(as<std::string>(), "sglang", "vllm", "trtllm", "atom");
  INFO(framework);
  const RowResult found = rows().run({.framework = framework});
  check_only(found, {});
  REQUIRE(found.code == 0);
  const json& acceptance = found.result["acceptance"];
  CHECK(acceptance["requested"] == 5.7);
  CHECK(acceptance["realised"].get<double>() == Approx(5.7).margin(0.11));
  CHECK(acceptance["read_from"] == (framework == "sglang" ? "log-windows" : "counters"));
  // Steps of the measured requests only: 64 tokens at 5.7 a step, the first by prefill.
  CHECK(acceptance["steps"] == 12 * kRowRequests);
  CHECK(acceptance["accepted_per_position"].empty() == (framework == "sglang" || framework == "trtllm"));
  if (framework != "atom") CHECK(found.result["engine"]["version"].is_string());
  if (framework == "sglang") CHECK(found.result["engine"]["kv_cache"]["dtype"] == "fp8_e4m3");
  if (framework == "vllm") CHECK(found.result["engine"]["kv_cache"]["dtype"] == "fp8");
  CHECK(fs::exists(rows().last_run() / "SHA256SUMS"));
}

TEST_CASE("fault matrix: an engine with kernels of its own is measured beside a build that was gated in the same run") {
  const auto at_source = [](plan::Job&, pipeline::RunOptions&, pipeline::Locations& locations) {
    locations.root = SWEEPCTL_SOURCE_DIR;
    locations.cache = SWEEPCTL_TEST_CACHE;
  };
  const RowResult found = rows().run({.framework = "sglang", .change = at_source, .builds_kernels = true});
  INFO(found.found());
  REQUIRE(found.code == 0);
  const json& kernels = found.result["kernels"];
  CHECK(kernels["arch"] == "cpu");
  CHECK(kernels["library_sha256"].get<std::string>().size() == 64);
  CHECK(kernels["gate"]["verdict"] == "pass");
  CHECK(kernels["gate"]["cells"] > 100);
  CHECK(kernels["used_by_engine"] == false);
  CHECK(fs::exists(rows().last_run() / "gate-report.json"));
  for (const json& condition : found.result["conditions"])
    if (condition["rule"] == "judge/kernels")
      CHECK(contains(condition["text"].get<std::string>(), "gated; this engine uses its own"));
}

TEST_CASE("fault matrix: an engine that does not come up is given up on, with what its log says") {
  struct Case {
    Mishap mishap;
    std::string_view rule;
    std::string_view text;
  };
  const Case c = GENERATE(Case{Mishap::kHangBeforeReady, "engine/not-ready", "the engine was not ready after 1 s"},
                          Case{Mishap::kMemoryAndHang, "engine/out-of-memory",
                               "not ready after 1 s; its log says: torch.OutOfMemoryError: CUDA out of memory"});
  const RowResult found = rows().run({.framework = "sglang",
                                      .mishap = c.mishap,
                                      .change = [](plan::Job&, pipeline::RunOptions& options, pipeline::Locations&) {
                                        options.ready_timeout = std::chrono::seconds(1);
                                      }});
  check_row({c.mishap, kNoResult, c.rule, c.text}, found);
}

namespace {

// A fifth of it between two tokens: 800 ms.
void wait_four_seconds(plan::Job&, pipeline::RunOptions& options, pipeline::Locations&) {
  options.request_timeout = std::chrono::seconds(4);
}

}  // namespace

TEST_CASE("fault matrix: an engine that hangs inside a request is given up on") {
  const RowResult found = rows().run({.framework = "vllm", .mishap = Mishap::kHangMidRun, .change = wait_four_seconds});
  check_row({Mishap::kHangMidRun, kNoResult, "run/broken-off", "broken off with 2 requests not sent"}, found);
  CHECK(contains(found.notes, "nothing received for 800 ms"));
}

TEST_CASE("fault matrix: an engine that hangs for good is not waited for once more at each of its endpoints") {
  const std::string framework = GENERATE(as<std::string>(), "sglang", "trtllm");
  const Mishap mishap = GENERATE(Mishap::kHangInWarmUp, Mishap::kHangAtEnd);
  INFO(framework << " " << mishap_name(mishap));
  const auto began = std::chrono::steady_clock::now();
  const RowResult found = rows().run({.framework = framework, .mishap = mishap, .change = wait_four_seconds});
  const auto took = std::chrono::steady_clock::now() - began;
  if (mishap == Mishap::kHangInWarmUp) {
    check_row({mishap, kNoResult, "run/broken-off", "broken off with 4 requests not sent"}, found);
    CHECK(contains(found.notes, "warm-up request 0: "));
    CHECK(contains(found.notes, "nothing received for 800 ms"));
  } else {
    check_row({mishap, kInvalid, "judge/requests", "nothing received for 800 ms"}, found);
    CHECK(found.failed.contains("judge/counters"));
  }
  // Its endpoints have 20 s each while it is well; 3 s for all of them are left to one that failed a request.
  CHECK(took < std::chrono::seconds(20));
}

TEST_CASE("fault matrix: an engine that does not end when asked to is ended all the same") {
  const RowResult found = rows().run({.framework = "sglang", .mishap = Mishap::kIgnoresTerm});
  check_row({Mishap::kIgnoresTerm, 0, "", ""}, found);
}

TEST_CASE("fault matrix: a server that already listens on the port is not measured in the engine's place") {
  const HttpServer other([](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", ""); }, plain_wires(),
                         rows().port());
  const RowResult found = rows().run({.framework = "sglang"});
  check_row({Mishap::kNone, kNoResult, "engine/port-taken", fmt::format("port {} is taken", rows().port())}, found);
  CHECK(other.requests().empty());
}

TEST_CASE("fault matrix: a length that the engine cannot express is refused before anything is started") {
  const RowResult found =
      rows().run({.framework = "trtllm", .change = [](plan::Job& job, pipeline::RunOptions&, pipeline::Locations&) {
                    job.engine_flags.back().value = R"({"decoding_type":"Eagle3","eagle3_one_model":false})";
                  }});
  CHECK(found.code == 1);
  CHECK(found.rule == "engine/acceptance-unsupported");
  CHECK_FALSE(fs::exists(rows().last_run() / "engine.log"));
}

namespace {

// GPUs of a driver that the test steers.
class FakeDriver {
 public:
  explicit FakeDriver(const FakeNvml& state) : handle_(::dlopen(SWEEP_FAKE_NVML_NEW, RTLD_NOW)) {
    REQUIRE(handle_ != nullptr);
    set(state);
  }
  ~FakeDriver() { ::dlclose(handle_); }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  void set(const FakeNvml& state) const { reinterpret_cast<FakeNvmlSet>(::dlsym(handle_, "fake_nvml_set"))(&state); }
  // A row on one of its GPUs.
  static void use(plan::Job& job, pipeline::RunOptions&, pipeline::Locations& locations) {
    job.gpus = 1;
    job.runner = "h200";
    locations.nvml = SWEEP_FAKE_NVML_NEW;
  }

 private:
  void* handle_;
};

}  // namespace

TEST_CASE("fault matrix: a GPU that another process uses makes the result invalid") {
  const auto mine = static_cast<unsigned>(::getpid());  // visible, and not the engine's
  SECTION("before the engine is launched") {
    const EnvironmentVariable step("DOUBLE_STEP_MS", "5");
    const FakeDriver driver({.gpus = 1, .processes = 1, .first_pid = mine, .memory_used = 9ull << 30});
    const RowResult found = rows().run({.framework = "vllm", .change = FakeDriver::use});
    check_row({Mishap::kNone, kInvalid, "judge/exclusive",
               "before the engine was launched, GPU 0 had 1 processes and 9216 MiB in use"},
              found);
  }
  SECTION("inside the window") {
    const EnvironmentVariable step("DOUBLE_STEP_MS", "25");  // 1.2 s: processes are listed once a second
    const FakeDriver driver({.gpus = 1, .processes = 0});
    const RowResult found = rows().run({.framework = "vllm", .change = FakeDriver::use, .on_stage = [&](Stage stage) {
                                          if (stage == Stage::kMeasure)
                                            driver.set({.gpus = 1, .processes = 1, .first_pid = mine});
                                        }});
    check_row({Mishap::kNone, kInvalid, "judge/exclusive", "1 other processes were on one of the GPUs"}, found);
  }
  SECTION("by nobody") {
    const EnvironmentVariable step("DOUBLE_STEP_MS", "5");
    const FakeDriver driver({.gpus = 1, .processes = 0});
    const RowResult found = rows().run({.framework = "vllm", .change = FakeDriver::use});
    CHECK_FALSE(found.failed.contains("judge/exclusive"));
  }
}

namespace {

constexpr const char* kDigest = "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";

void use_container(plan::Job& job, pipeline::RunOptions& options, pipeline::Locations&) {
  options.launcher = pipeline::Launcher::kContainer;
  job.image = std::string("example/image:tag@") + kDigest;
  job.image_pinned = true;
}

}  // namespace

TEST_CASE("fault matrix: an engine in a container is started by its image and stopped with it") {
  const EnvironmentVariable digest("DOUBLE_DIGEST", kDigest);
  const Mishap mishap = GENERATE(Mishap::kNone, Mishap::kDieMidRun, Mishap::kIgnoresTerm);
  const RowResult found = rows().run({.framework = "sglang", .mishap = mishap, .change = use_container});
  INFO(mishap_name(mishap));
  if (mishap == Mishap::kDieMidRun)
    check_row({mishap, kNoResult, "engine/died", "exit status 1"}, found);
  else
    check_row({mishap, 0, "", ""}, found);
  CHECK(fs::is_empty(rows().folder() / "containers"));
  if (!found.result.is_object()) return;
  CHECK(found.result["engine"]["launcher"] == "container");
  CHECK(found.result["engine"]["image_digest"] == kDigest);
}

TEST_CASE("fault matrix: processes inside the container are the engine's, not strangers on its GPU") {
  const EnvironmentVariable digest("DOUBLE_DIGEST", kDigest);
  const EnvironmentVariable step("DOUBLE_STEP_MS", "25");  // 1.2 s: processes are listed once a second
  const FakeDriver driver({.gpus = 1, .processes = 0});
  const auto list_container = [&](Stage stage) {
    if (stage != Stage::kMeasure) return;
    const fs::path file = fs::directory_iterator(rows().folder() / "containers")->path();
    const auto pid = static_cast<unsigned>(std::stoul(base::read_file(file).value()));
    driver.set({.gpus = 1, .processes = 1, .first_pid = pid});
  };
  const RowResult found = rows().run({.framework = "vllm",
                                      .change =
                                          [](plan::Job& job, pipeline::RunOptions& options, pipeline::Locations& at) {
                                            use_container(job, options, at);
                                            FakeDriver::use(job, options, at);
                                          },
                                      .on_stage = list_container});
  check_row({Mishap::kNone, 0, "", ""}, found);
}

TEST_CASE("fault matrix: an image that the runtime cannot get is said before anything is started") {
  const EnvironmentVariable digest("DOUBLE_DIGEST", std::nullopt);
  const RowResult found = rows().run({.framework = "sglang", .change = use_container});
  check_row({Mishap::kNone, kNoResult, "engine/container-failed", "manifest unknown"}, found);
}

namespace {

// The built `sweepctl` beside a double of the bundled engine, in a checkout whose kernels have been built and gated.
class BundledRows {
 public:
  BundledRows() {
    const fs::path programs = checkout_.root() / "bin";
    fs::create_directory(programs);
    fs::copy_file(SWEEPCTL_PROGRAMS "/sweepctl", programs / "sweepctl");
    fs::create_symlink(SWEEPCTL_PROGRAMS "/flashmla-gate", programs / "flashmla-gate");
    fs::create_symlink(SWEEPCTL_PROGRAMS "/sweepctl-engine-double", programs / "sweepctl-embedded");
    const RowResult first = run(Mishap::kNone);
    INFO(first.message);
    REQUIRE(first.code == 0);
    gated_ = out_;
  }

  exec::CommandSpec command(Mishap mishap, std::vector<std::string> more) {
    constexpr int64_t kFirst = 3;  // behind the probe and one warm-up request
    std::vector<std::string> arguments = {"run", kEntry, "--out", out_.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    exec::CommandSpec command = checkout_.command(std::move(arguments));
    command.argv[0] = (checkout_.root() / "bin/sweepctl").string();
    for (const auto& [name, value] : std::initializer_list<std::pair<std::string, std::string>>{
             {"DOUBLE_ROW", name_},
             {"DOUBLE_MISHAP", std::string(mishap_name(mishap))},
             {"DOUBLE_FIRST_MEASURED", std::to_string(kFirst)},
             {"DOUBLE_LAST_MEASURED", std::to_string(kFirst + kSmallRequests - 1)}})
      command.environment.emplace_back(name, value);
    return command;
  }

  // The stages before the launch are those of the first run.
  void begin_row() {
    name_ = fmt::format("bundled-{}-{}", ::getpid(), ++rows_);
    out_ = checkout_.root() / name_;
    if (gated_.empty()) return;
    fs::create_directory(out_);
    for (const char* file : {"plan.json", "weights.json", "kernels.json", "gate-report.json"})
      fs::copy_file(gated_ / file, out_ / file);
  }

  RowResult run(Mishap mishap, std::vector<std::string> more = {}) {
    begin_row();
    if (!gated_.empty()) more.emplace_back("--resume");
    return finish(command(mishap, std::move(more)));
  }

  RowResult finish(const exec::CommandSpec& command) const {
    fs::remove(command.output);
    const auto status = exec::run(command, std::chrono::minutes(2), {}).value();
    RowResult found;
    found.code = status.code;
    found.message = base::read_file(command.output).value();
    found.left = left_of_row(name_);
    const auto text = base::read_file(out_ / "result.json");
    if (!text) return found;
    found.result = json::parse(*text, nullptr, false);
    for (const json& condition : found.result["conditions"])
      if (condition["outcome"] == "failed") found.failed.insert(condition["rule"]);
    return found;
  }

  const fs::path& out() const { return out_; }
  const std::string& name() const { return name_; }

 private:
  SmallCheckout checkout_;
  std::string name_;
  fs::path out_;
  fs::path gated_;
  int rows_ = 0;
};

BundledRows& bundled() {
  static BundledRows all;
  return all;
}

}  // namespace

TEST_CASE("fault matrix: the command ends with the exit code of the failure, and prints the true reason") {
  const auto row = GENERATE(
      Expected{Mishap::kNone, 0, "", "VALID"}, Expected{Mishap::kDieBeforeReady, kNoResult, "", "[engine/died]"},
      Expected{Mishap::kMemoryBeforeReady, kNoResult, "", "[engine/out-of-memory]"},
      Expected{Mishap::kKilledMidRun, kNoResult, "", "killed by signal 9"},
      Expected{Mishap::kMemoryMidRun, kNoResult, "", "[engine/out-of-memory]"},
      Expected{Mishap::kDieAfter, kNoResult, "", "[engine/died]"},
      Expected{Mishap::kProbeError, kNoResult, "", "[engine/probe-failed]"},
      Expected{Mishap::kShort, kInvalid, "judge/lengths", "31 output tokens by usage"},
      Expected{Mishap::kAcceptanceOff, kInvalid, "judge/acceptance",
               "realised acceptance length 4.125 over 32 verification steps, asked 5.7 +- 0.267"},
      Expected{Mishap::kDeadDraft, kInvalid, "judge/dead-draft", "the draft head is dead"},
      Expected{Mishap::kCached, kInvalid, "judge/prefix-cache", "prompt tokens from a prefix cache: 512 by usage"},
      Expected{Mishap::kCompileInWindow, kInvalid, "judge/jit", "JIT compilation"},
      Expected{Mishap::kErrorLogged, kInvalid, "judge/engine-log", "CUDA out of memory"},
      Expected{Mishap::kRestarted, kInvalid, "judge/counters", "these requests explain"},
      Expected{Mishap::kOtherClient, kInvalid, "judge/counters", "these requests explain"});
  INFO(mishap_name(row.mishap));
  check_row(row, bundled().run(row.mishap));
}

TEST_CASE("fault matrix: after a kill -9 of sweepctl, resuming ends what its engine left, and measures again") {
  bundled().begin_row();
  {
    auto process = exec::Process::start(bundled().command(Mishap::kHangMidRun, {"--resume"})).value();
    REQUIRE(wait_for_file(bundled().out() / "requests.partial.jsonl", process));
    ::kill(process.pid(), SIGKILL);
    REQUIRE(process.wait(std::chrono::minutes(1), {}).has_value());
  }
  CHECK_FALSE(left_of_row(bundled().name()).empty());  // helpers of the engine, which no signal of a parent reaches
  const RowResult resumed = bundled().finish(bundled().command(Mishap::kNone, {"--resume"}));
  check_row({Mishap::kNone, 0, "", "VALID"}, resumed);
  CHECK(fs::exists(bundled().out() / "attempt-1/engine.json"));
}
