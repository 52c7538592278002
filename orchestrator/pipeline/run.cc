#include "orchestrator/pipeline/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/diag/rules/run.h"
#include "orchestrator/host/host.h"
#include "orchestrator/pipeline/engine_server.h"
#include "orchestrator/pipeline/load.h"
#include "orchestrator/pipeline/stages.h"

namespace sweep::pipeline {

namespace {

namespace rule = diag::rule;

diag::Result<const engine::Framework*> framework_of(const plan::Job& job) {
  if (const engine::Framework* framework = engine::find_framework(job.framework)) return framework;
  std::string known;
  for (const engine::Framework& framework : engine::frameworks())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", framework.name);
  return diag::fail(
      rule::engine_unknown_framework,
      fmt::format("entry \"{}\" names framework \"{}\"; there are adapters for {}", job.entry, job.framework, known));
}

// Refuses what must not or cannot be dispatched from here.
std::optional<diag::Diagnostic> refusal(const plan::Job& job, const RunOptions& options) {
  if (job.status != plan::Status::kReady)
    return diag::make_at(rule::run_not_ready, job.where,
                         fmt::format("\"{}\" is {}: planned, not dispatched", job.entry, plan::status_name(job.status)),
                         "choose a ready entry; `sweepctl run ENTRY --dry-run` shows what this one would do");
  if (auto refused = load_refusal(job, options)) return refused;
  if (options.engine_url) return std::nullopt;
  const auto here = static_cast<int64_t>(host::inspect_host().gpus.size());
  if (here < job.gpus)
    return diag::make_at(
        rule::engine_host_lacks_gpus, job.where,
        fmt::format("\"{}\" needs {} GPUs ({}), this host has {}", job.entry, job.gpus, job.runner, here),
        "run it on such a host, see what it would do with --dry-run, or measure a server elsewhere with "
        "--engine-url");
  return std::nullopt;
}

// An engine that takes only text is asked by chat, whose prompts have a known length, too.
RunOptions options_for(const engine::Framework& framework, RunOptions options) {
  if (!framework.takes_token_ids) options.api = loadgen::Api::kChat;
  return options;
}

// The commands in the order in which they run, and the files that they read.
std::string describe_launch(const engine::Launch& launch) {
  std::string out;
  if (launch.container)
    for (const exec::CommandSpec& command : launch.container->prepare)
      out += fmt::format("  image     {}\n", exec::quoted_for_shell(command));
  out += fmt::format("  engine    {}\n", exec::quoted_for_shell(launch.command));
  for (const engine::LaunchFile& file : launch.files) {
    out += fmt::format("  file      {}\n", file.path.string());
    std::string_view rest = file.text;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      out += fmt::format("              {}\n", line);
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    }
  }
  if (launch.container && launch.container->stop)
    out += fmt::format("  stop      {}\n", exec::quoted_for_shell(*launch.container->stop));
  return out;
}

}  // namespace

std::string_view launcher_name(Launcher launcher) {
  return launcher == Launcher::kContainer ? "container" : "local";
}

diag::Result<RunOutcome> run_job(const plan::Job& job, const RunOptions& options, const Locations& locations,
                                 Progress& progress, diag::Diagnostics& diagnostics, const std::stop_token& stop) {
  if (auto refused = refusal(job, options)) return diag::fail(std::move(*refused));
  auto framework = framework_of(job);
  if (!framework) return diag::fail(std::move(framework).error());
  auto folder = RunFolder::open(options.folder, options.resume);
  if (!folder) return diag::fail(std::move(folder).error());
  const RunOptions adapted = options_for(**framework, options);
  const Line line{.job = job,
                  .framework = **framework,
                  .options = adapted,
                  .locations = locations,
                  .folder = *folder,
                  .progress = progress,
                  .diagnostics = diagnostics,
                  .stop = stop};

  if (auto planned = record_plan(line); !planned) return diag::fail(std::move(planned).error());
  auto weights = verify_weights(line);
  if (!weights) return diag::fail(std::move(weights).error());
  auto kernels = prepare_kernels(line);
  if (!kernels) return diag::fail(std::move(kernels).error());
  auto measured = measure(line, *weights, *kernels);
  if (!measured) return diag::fail(std::move(measured).error());
  auto result = judge_and_bundle(line, *weights, *kernels, *measured);
  if (!result) return diag::fail(std::move(result).error());
  const bool valid = (*result)["valid"].get<bool>();
  return RunOutcome{.result = std::move(*result), .valid = valid};
}

diag::Result<std::string> describe_job(const plan::Job& job, const RunOptions& asked, const Locations& locations) {
  auto framework = framework_of(job);
  if (!framework) return diag::fail(std::move(framework).error());
  const RunOptions options = options_for(**framework, asked);
  const auto model_folder = weights_folder(job, options, locations);
  const std::string model = model_folder ? model_folder->string() : "WEIGHTS";
  std::string out = fmt::format("{}\n", describe_point(job));
  out += fmt::format("  status    {}{}\n", plan::status_name(job.status), job.research_only ? ", research-only" : "");
  out += fmt::format("  weights   {} at {}, verified against {}\n", job.model, job.revision, job.pin);
  for (const std::filesystem::path& report : options.weights_reports)
    out += fmt::format("            must agree with the report {}\n", report.string());
  out +=
      fmt::format("  kernels   build from {}, gate against the FP64 oracle\n", (locations.root / "kernels").string());
  if (options.engine_url) {
    out += fmt::format("  engine    {} (already running)\n", *options.engine_url);
  } else {
    auto launch = render_launch(**framework,
                                {.job = job,
                                 .model_folder = model,
                                 .kernel_library = "KERNELS",
                                 .program_folder = locations.programs,
                                 .run_folder = options.folder,
                                 .seed = options.seed},
                                options.launcher);
    if (!launch) return diag::fail(std::move(launch).error());
    out += describe_launch(*launch);
  }
  out += fmt::format("  requests  {} warm-up and {} measured POST {}, {}, max_tokens {}\n", job.warmup_requests,
                     job.requests, loadgen::api_path(options.api),
                     options.api == loadgen::Api::kChat ? fmt::format("words and template of {} tokens", job.isl)
                                                        : fmt::format("{} prompt token ids", job.isl),
                     job.osl);
  out += fmt::format("  load      {}\n", describe_load(job, options));
  out += fmt::format("  bundle    {}\n", options.folder.string());
  return out;
}

}  // namespace sweep::pipeline
