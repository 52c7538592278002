#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/cli/run_load.h"
#include "orchestrator/cli/terminal_progress.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/run.h"
#include "orchestrator/host/host.h"
#include "orchestrator/pipeline/device.h"
#include "orchestrator/pipeline/entries.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/pipeline/run.h"
#include "orchestrator/pipeline/run_folder.h"
#include "orchestrator/report/summary.h"

namespace sweep::cli {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;

constexpr const char* kMainJobFramework = "embedded";

struct RunArguments {
  std::vector<std::string> entries;
  std::vector<int64_t> concurrencies;
  std::string out;
  bool resume = false;
  bool dry_run = false;
  std::shared_ptr<LoadArguments> load = std::make_shared<LoadArguments>();
  std::string launcher = "local";
  std::string weights;
  std::string device = "auto";
  std::vector<std::string> weights_reports;
  uint64_t seed = 1;
  double ready_timeout_s = 600;
  double request_timeout_s = 600;
};

// "20261129T194349Z", for names of folders.
std::string compact_time() {
  std::string text = base::utc_text(base::unix_ns());
  std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
  return text;
}

std::string job_name(const plan::Job& job, const RunArguments& arguments) {
  const auto& rate = arguments.load->request_rate;
  return fmt::format("{}-conc{}{}", job.entry, job.concurrency, rate ? fmt::format("-rate{}", *rate) : std::string());
}

// The newest folder of this job under runs/ that holds a run without a result.
std::optional<fs::path> newest_unfinished(const std::string& name) {
  std::optional<fs::path> newest;
  std::error_code error;
  const std::string prefix = name + "-";
  for (fs::directory_iterator item("runs", error), end; !error && item != end; item.increment(error)) {
    const fs::path& path = item->path();
    if (!path.filename().string().starts_with(prefix)) continue;
    if (!fs::exists(path / pipeline::stage_file::kPlan, error) || fs::exists(path / pipeline::stage_file::kSums, error))
      continue;
    if (!newest || path.filename() > newest->filename()) newest = path;
  }
  return newest;
}

diag::Result<fs::path> folder_of(const plan::Job& job, const RunArguments& arguments, bool only_one) {
  const std::string name = job_name(job, arguments);
  if (!arguments.out.empty()) return only_one ? fs::path(arguments.out) : fs::path(arguments.out) / name;
  if (!arguments.resume) return fs::path("runs") / fmt::format("{}-{}", name, compact_time());
  if (auto folder = newest_unfinished(name)) return std::move(*folder);
  return diag::fail(rule::run_nothing_to_resume,
                    fmt::format("no unfinished run of \"{}\" under runs/ in this folder", name),
                    "name its folder with --out DIR");
}

constexpr double kLeastSeconds = 0.001;
constexpr double kMostSeconds = 86400;

// Empty if it is a time to wait. CLI11's own range takes NaN.
std::string check_seconds(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && seconds >= kLeastSeconds && seconds <= kMostSeconds) return {};
  return fmt::format("\"{}\" is no number of seconds from {} to {}", text, kLeastSeconds, kMostSeconds);
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

// All but the folder.
pipeline::RunOptions options_for(const RunArguments& arguments) {
  pipeline::RunOptions options{
      .folder = {},
      .resume = arguments.resume,
      .seed = arguments.seed,
      .launcher = arguments.launcher == "container" ? pipeline::Launcher::kContainer : pipeline::Launcher::kLocal,
      .ready_timeout = milliseconds_of(arguments.ready_timeout_s),
      .request_timeout = milliseconds_of(arguments.request_timeout_s)};
  std::error_code error;
  if (!arguments.weights.empty()) options.weights = fs::absolute(arguments.weights, error);
  for (const std::string& report : arguments.weights_reports) options.weights_reports.emplace_back(report);
  return options;
}

// A bundle's summary for the workflow's page, if this is a workflow.
void append_step_summary(const Context& context, const nlohmann::json& result) {
  const char* path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || *path == '\0') return;
  if (FILE* file = std::fopen(path, "ae")) {
    const std::string text = report::summary_markdown(result) + "\n";
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) == 0 && written) return;
  }
  context.console.report(diag::make(rule::file_unwritable, fmt::format("cannot append to the step summary {}", path)));
}

ExitCode run_one(const Context& context, const plan::Job& job, const pipeline::RunOptions& options,
                 const pipeline::Locations& locations) {
  const std::unique_ptr<pipeline::Progress> progress = make_progress(context.console, context.quiet);
  diag::Diagnostics diagnostics;
  const auto outcome = pipeline::run_job(job, options, locations, *progress, diagnostics, context.stop);
  diagnostics.normalise();
  for (const diag::Diagnostic& diagnostic : diagnostics.items()) context.console.report(diagnostic);
  if (!outcome) return fail(context, outcome.error());
  if (context.console.format() == Format::kJson) {
    context.console.out(outcome->result.dump(2) + "\n");
  } else {
    context.console.out(report::summary_text(outcome->result, context.console.colour_on_stdout()));
    context.console.out(fmt::format("\nReport: {}\n", (options.folder / pipeline::stage_file::kSummary).string()));
  }
  append_step_summary(context, outcome->result);
  return outcome->valid ? ExitCode::kGood : ExitCode::kInvalid;
}

// The worse of two outcomes; see exit_code.h for the order.
ExitCode worse(ExitCode a, ExitCode b) {
  constexpr std::array kOrder{ExitCode::kInternal, ExitCode::kCouldNotRun, ExitCode::kGateFailed, ExitCode::kInvalid,
                              ExitCode::kProblems, ExitCode::kUsage,       ExitCode::kGood};
  for (const ExitCode code : kOrder)
    if (a == code || b == code) return code;
  return a;
}

// Without names: the embedded entry for any host.
std::vector<plan::Job> chosen(std::vector<plan::Job> jobs, const RunArguments& arguments) {
  if (arguments.entries.empty())
    std::erase_if(jobs, [](const plan::Job& job) {
      return job.framework != kMainJobFramework || job.gpus > 0 || job.status != plan::Status::kReady;
    });
  return jobs;
}

ExitCode run(Context& context, const RunArguments& arguments) {
  const auto locations = pipeline::find_locations(context.root);
  if (!locations) return fail(context, locations.error());
  diag::Diagnostics diagnostics;
  auto loaded = pipeline::load_jobs(locations->root, {arguments.entries, arguments.concurrencies}, diagnostics);
  if (diagnostics.has_errors()) {
    context.console.report(diagnostics, loaded.sources);
    return ExitCode::kProblems;
  }
  std::vector<plan::Job> jobs = chosen(std::move(loaded.jobs), arguments);
  if (jobs.empty())
    return fail(context,
                diag::make(rule::run_no_entry, "no entry has a point to run with these names and concurrencies",
                           "`sweepctl doctor` lists the entries"));
  if (arguments.launcher == "slurm")
    return fail(context, diag::make(diag::rule::engine_launcher_unavailable,
                                    "the launcher \"slurm\" is planned, and cannot start an engine yet",
                                    "start the engine with the scheduler and measure it with --engine-url"));
  const host::Host here = host::inspect_host();
  const pipeline::Device device = pipeline::parse_device(arguments.device).value_or(pipeline::Device::kAuto);
  for (plan::Job& job : jobs) {
    auto placed = pipeline::on_device(std::move(job), device, here, *locations, context.stop);
    if (!placed) return fail(context, placed.error());
    job = std::move(*placed);
  }
  pipeline::RunOptions options = options_for(arguments);
  diag::Diagnostics warnings;
  if (const auto read = read_load_options(*arguments.load, options, warnings); !read)
    return fail(context, read.error());
  for (const diag::Diagnostic& warning : warnings.items()) context.console.report(warning);
  ExitCode code = ExitCode::kGood;
  for (const plan::Job& job : jobs) {
    auto folder = folder_of(job, arguments, jobs.size() == 1);
    if (!folder) return fail(context, folder.error());
    std::error_code error;
    options.folder = fs::absolute(*folder, error).lexically_normal();
    if (arguments.dry_run) {
      const auto text = pipeline::describe_job(job, options, *locations);
      if (!text) return fail(context, text.error());
      context.console.out(*text);
      continue;
    }
    code = worse(code, run_one(context, job, options, *locations));
    if (context.stop.stop_requested()) break;
  }
  return code;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Run entries end to end: verify weights, build and gate kernels, serve, measure, judge, bundle.\n"
      "Without ENTRY: the main job, the embedded DSpark entry (8192 in / 256 out), which runs on any machine.");
  command->footer(
      "Examples:\n"
      "  sweepctl run                         the main job; the bundle lands in runs/\n"
      "  sweepctl run --resume                continue the newest unfinished run\n"
      "  sweepctl run 'dsv41flash*' --dry-run what would be done, for the entries that match\n"
      "  sweepctl run ENTRY --engine-url http://127.0.0.1:8000\n"
      "  sweepctl run ENTRY --request-rate 2   open loop: two requests a second, answered or not\n\n"
      "Exit codes: 0 valid, 1 inputs or weights are wrong, 3 could not run, 4 kernel gate failed, 5 invalid result.");
  command->add_option("entries", arguments->entries, "Entries of the matrix; * and ? match")->type_name("ENTRY");
  command->add_option("--conc", arguments->concurrencies, "Only this concurrency of the entries (may be repeated)")
      ->type_name("N")
      ->allow_extra_args(false);
  command->add_option("--out", arguments->out, "Folder of the bundle")
      ->type_name("DIR")
      ->default_str("runs/ENTRY-concN-TIME");
  command->add_flag("--resume", arguments->resume,
                    "Continue a run that was stopped or killed; finished stages are kept");
  command->add_flag("--dry-run", arguments->dry_run, "Print what would be done, down to the engine's command line");
  add_load_options(*command, arguments->load);
  command
      ->add_option("--launcher", arguments->launcher,
                   "Who starts the engine: local, in a process group of this host; container, in the entry's image "
                   "with docker, podman or enroot")
      ->type_name("local|container")
      ->check(CLI::IsMember({"local", "container", "slurm"}).description(""))
      ->default_str("local");
  command->add_option("--weights", arguments->weights, "Folder of the staged weights")->type_name("DIR");
  command
      ->add_option(
          "--weights-report", arguments->weights_reports,
          "Report of `weights verify` on another host of the run: its weights must be the same (may be repeated)")
      ->type_name("REPORT")
      ->allow_extra_args(false);
  command
      ->add_option("--device", arguments->device,
                   "Where the embedded engine computes; auto: the entry's GPUs, or one if there is one, else the CPU")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}).description(""))
      ->type_name("auto|cpu|cuda");
  command->add_option("--seed", arguments->seed, "Of prompts, engine and gate cases")->type_name("N");
  command->add_option("--ready-timeout", arguments->ready_timeout_s, "Seconds until the engine must answer")
      ->type_name("S")
      ->check(check_seconds);
  command
      ->add_option("--request-timeout", arguments->request_timeout_s,
                   "Seconds until a request's first token; later tokens must follow within a fifth of it")
      ->type_name("S")
      ->check(check_seconds);
  command->callback(
      [arguments, &action] { action = [arguments](Context& context) { return run(context, *arguments); }; });
}

}  // namespace sweep::cli
