#include "tests/integration/engine_row.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "orchestrator/base/file.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/exec/marked.h"
#include "tests/support/catch.h"

namespace sweep::test {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

class StageWatch final : public pipeline::Progress {
 public:
  explicit StageWatch(const std::function<void(pipeline::Stage)>& on_stage) : on_stage_(on_stage) {}
  void begin(pipeline::Stage stage, std::string_view) override {
    if (on_stage_) on_stage_(stage);
  }
  void advance(pipeline::Stage, int64_t, int64_t, std::string_view) override {}
  void end(pipeline::Stage, std::string_view) override {}
  void reuse(pipeline::Stage, std::string_view) override {}
  void fail(pipeline::Stage, std::string_view) override {}

 private:
  const std::function<void(pipeline::Stage)>& on_stage_;
};

// Words of three letters, each one token at the beginning of a text and behind a space.
void write_model(const fs::path& folder) {
  constexpr int kWords = 400;
  json vocabulary = json::object();
  for (int i = 0; i < kWords; ++i) {
    const std::string word{static_cast<char>('a' + i / 100), static_cast<char>('a' + i / 10 % 10),
                           static_cast<char>('a' + i % 10)};
    vocabulary[word] = i;
    vocabulary["\xC4\xA0" + word] = kWords + i;
  }
  const json tokenizer = {{"model", {{"type", "BPE"}, {"vocab", vocabulary}}}, {"added_tokens", json::array()}};
  REQUIRE(base::make_directories(folder).has_value());
  REQUIRE(base::write_file_atomic(folder / "tokenizer.json", tokenizer.dump()).has_value());
  REQUIRE(base::write_file_atomic(folder / "config.json", R"({"vocab_size": 5000, "eos_token_id": 1})").has_value());
}

std::vector<plan::Setting> flags_of(const std::string& framework, int port) {
  const std::string number = std::to_string(port);
  if (framework == "sglang")
    return {{"port", number}, {"speculative-algorithm", "DSPARK"}, {"speculative-dspark-block-size", "7"}};
  if (framework == "vllm")
    return {{"port", number}, {"speculative-config", R"({"method":"dspark","num_speculative_tokens":7})"}};
  if (framework == "trtllm")
    return {{"port", number}, {"speculative_config", R"({"decoding_type":"DSpark","max_draft_len":7})"}};
  return {{"server-port", number}, {"method", "dspark"}, {"num-speculative-tokens", "7"}};
}

}  // namespace

int free_port() {
  const base::FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(probe.get(), generic, size) == 0);
  REQUIRE(::getsockname(probe.get(), generic, &size) == 0);
  return ntohs(address.sin_port);
}

std::vector<pid_t> left_of_row(const std::string& row) {
  return exec::processes_with("DOUBLE_ROW=" + row);
}

EngineRows::EngineRows()
    : folder_(base::TempDir::create().value()), former_path_(std::getenv("PATH")), port_(free_port()) {
  const fs::path programs = folder() / "bin";
  fs::create_directory(programs);
  for (const char* name : {"python3", "vllm", "trtllm-serve", "docker"})
    fs::create_symlink(SWEEPCTL_PROGRAMS "/sweepctl-engine-double", programs / name);
  ::setenv("PATH", fmt::format("{}:{}", programs.string(), former_path_).c_str(), 1);
  write_model(folder() / "model");
  fs::create_directory(folder() / "containers");
  ::setenv("DOUBLE_FOLDER", (folder() / "containers").c_str(), 1);
}

EngineRows::~EngineRows() {
  ::setenv("PATH", former_path_.c_str(), 1);
}

plan::Job EngineRows::job_of(const std::string& framework) const {
  plan::Job job;
  job.id = "0123456789ab";
  job.entry = "row";
  job.model = "example-org/tiny-dspark";
  job.model_prefix = "tiny";
  job.revision = std::string(40, 'a');
  job.precision = "fp8";
  job.framework = framework;
  job.runner = "local";
  job.isl = 64;
  job.osl = 64;
  job.concurrency = 1;
  job.spec_decoding = "dspark";
  job.num_draft_tokens = 7;
  job.acceptance = {plan::AcceptanceSource::kExplicit, 5.7};
  job.requests = kRowRequests;
  job.warmup_requests = kRowWarmUp;
  job.research_only = true;
  job.recipe = "recipes/row.yaml";
  job.engine_flags = flags_of(framework, port_);
  return job;
}

RowResult EngineRows::run(const Row& row) {
  const std::string name = fmt::format("{}-{}", ::getpid(), ++rows_);
  constexpr int64_t kProbes = 1;
  constexpr int64_t kFirst = kProbes + kRowWarmUp + 1;
  ::setenv("DOUBLE_ROW", name.c_str(), 1);
  ::setenv("DOUBLE_MISHAP", std::string(mishap_name(row.mishap)).c_str(), 1);
  ::setenv("DOUBLE_FIRST_MEASURED", std::to_string(kFirst).c_str(), 1);
  ::setenv("DOUBLE_LAST_MEASURED", std::to_string(kFirst + kRowRequests - 1).c_str(), 1);
  last_run_ = folder() / fmt::format("run-{}", rows_);

  plan::Job job = job_of(row.framework);
  const engine::Framework* framework = engine::find_framework(row.framework);
  REQUIRE(framework != nullptr);
  pipeline::RunOptions options{
      .folder = last_run_, .ready_timeout = std::chrono::seconds(60), .request_timeout = std::chrono::seconds(60)};
  if (!framework->takes_token_ids) options.api = loadgen::Api::kChat;
  pipeline::Locations locations{.root = folder(), .programs = SWEEPCTL_PROGRAMS, .cache = folder() / "cache"};
  if (row.change) row.change(job, options, locations);
  auto run_folder = pipeline::RunFolder::open(last_run_, false);
  REQUIRE(run_folder.has_value());
  StageWatch progress(row.on_stage);
  diag::Diagnostics diagnostics;
  const pipeline::Line line{.job = job,
                            .framework = *framework,
                            .options = options,
                            .locations = locations,
                            .folder = *run_folder,
                            .progress = progress,
                            .diagnostics = diagnostics,
                            .stop = {}};
  const pipeline::WeightsOutcome weights{.model_folder = folder() / "model",
                                         .document = {{"verified", true}, {"revision", job.revision}}};
  const auto outcome = [&]() -> diag::Result<json> {
    diag::Result<pipeline::KernelsOutcome> kernels = pipeline::KernelsOutcome{
        .build = {}, .document = {{"library_sha256", "aa"}, {"gate", {{"verdict", "pass"}, {"cells", 1}}}}};
    if (row.builds_kernels) kernels = pipeline::prepare_kernels(line);
    if (!kernels) return diag::fail(kernels.error());
    const auto measured = pipeline::measure(line, weights, *kernels);
    if (!measured) return diag::fail(measured.error());
    return pipeline::judge_and_bundle(line, weights, *kernels, *measured);
  }();
  RowResult found;
  found.left = left_of_row(name);
  if (!outcome) {
    found.code = static_cast<int>(cli::exit_code_of(outcome.error()));
    found.rule = diag::rule_info(outcome.error().rule).slug;
    found.message = outcome.error().message;
    for (const auto& note : outcome.error().notes) found.notes += note.message + "\n";
    CHECK_FALSE(fs::exists(last_run_ / pipeline::stage_file::kResult));
    return found;
  }
  found.result = *outcome;
  found.code = found.result["valid"] == true ? 0 : 5;
  for (const json& condition : found.result["conditions"])
    if (condition["outcome"] == "failed") found.failed.insert(condition["rule"]);
  for (const json& reason : found.result["reasons"]) found.reasons += reason.get<std::string>() + "\n";
  return found;
}

}  // namespace sweep::test
