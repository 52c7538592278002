#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/pipeline/run_folder.h"
#include "orchestrator/report/result.h"
#include "orchestrator/report/summary.h"
#include "orchestrator/sample/metrics.h"
#include "orchestrator/sample/sample_file.h"

namespace sweep::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct SummaryOptions {
  std::string path;
  bool markdown = false;
};

// A request stands in the file once. Two with one number are a retry, or two files in one: neither may be averaged
// away.
std::optional<diag::Diagnostic> repeated_request(const std::vector<sample::Sample>& samples, const fs::path& path) {
  std::set<std::pair<sample::Phase, int64_t>> seen;
  for (const sample::Sample& s : samples)
    if (!seen.emplace(s.phase, s.sequence).second)
      return diag::make_at(
          diag::rule::load_repeated_request, {.file = path.string()},
          fmt::format("request {} of phase \"{}\" is there twice", s.sequence, sample::phase_name(s.phase)),
          "summarise the records of one run at a time");
  return std::nullopt;
}

json problems_of(const std::vector<sample::Sample>& samples) {
  std::map<std::string, int64_t> requests;
  for (const sample::Sample& s : samples) {
    if (s.phase != sample::Phase::kMeasured) continue;
    std::set<std::string> rules;
    for (const sample::Problem& problem : s.problems) rules.insert(problem.rule);
    for (const std::string& rule : rules) ++requests[rule];
  }
  return requests;
}

// From the raw records alone, by the code that the result came from.
ExitCode summarise_requests(const Context& context, const SummaryOptions& options, const fs::path& path) {
  auto read = sample::read_samples(path);
  if (!read) return fail(context, read.error());
  if (auto twice = repeated_request(read->samples, path)) return fail(context, *twice);
  if (read->cut) context.console.report(*read->cut);
  json figures = report::request_figures(sample::summarise(read->samples));
  figures["schema_version"] = report::kResultVersion;
  figures["kind"] = "sweepctl-request-figures";
  figures["problems"] = problems_of(read->samples);
  if (context.console.format() == Format::kJson)
    context.console.out(figures.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  else
    context.console.out(options.markdown ? report::requests_markdown(figures)
                                         : report::requests_text(figures, context.console.colour_on_stdout()));
  return ExitCode::kGood;
}

ExitCode summarise_result(const Context& context, const SummaryOptions& options, const fs::path& path) {
  const auto text = base::read_file(path);
  if (!text)
    return fail(context, diag::make(diag::rule::file_unreadable, text.error().text(),
                                    "name a finished run's folder; `sweepctl run --resume --out DIR` finishes one"));
  const auto result = json::parse(*text, nullptr, false);
  const auto version = result.is_object() ? result.find("schema_version") : result.end();
  if (!result.is_object() || version == result.end() || *version != report::kResultVersion)
    return fail(context, diag::make_at(diag::rule::file_malformed, {.file = path.string()},
                                       fmt::format("not a result of schema_version {}", report::kResultVersion)));
  if (context.console.format() == Format::kJson)
    context.console.out(result.dump(2) + "\n");
  else
    context.console.out(options.markdown ? report::summary_markdown(result)
                                         : report::summary_text(result, context.console.colour_on_stdout()));
  return ExitCode::kGood;
}

ExitCode summarise(const Context& context, const SummaryOptions& options) {
  namespace stage_file = pipeline::stage_file;
  fs::path path = options.path;
  std::error_code error;
  if (path.extension() == ".jsonl") return summarise_requests(context, options, path);
  if (!fs::is_directory(path, error)) return summarise_result(context, options, path);
  // A run that is not finished, or was broken off, has its records.
  for (const char* name : {stage_file::kRequests, stage_file::kRequestsPartial})
    if (!fs::exists(path / stage_file::kResult, error) && fs::exists(path / name, error))
      return summarise_requests(context, options, path / name);
  return summarise_result(context, options, path / stage_file::kResult);
}

}  // namespace

void add_summary(CLI::App& app, Action& action) {
  auto options = std::make_shared<SummaryOptions>();
  CLI::App* command = app.add_subcommand(
      "summary", "A run's result, or the figures of its raw requests, for the terminal or as Markdown");
  command->footer(
      "Examples:\n"
      "  sweepctl summary runs/DIR                   the result of a finished run\n"
      "  sweepctl summary runs/DIR/requests.jsonl    latencies and throughput, computed again from the raw records");
  command->add_option("path", options->path, "The run's folder, its result.json, or its requests.jsonl")
      ->required()
      ->type_name("DIR|FILE");
  command->add_flag("--markdown", options->markdown, "Markdown, as for a workflow's step summary");
  command->callback(
      [options, &action] { action = [options](Context& context) { return summarise(context, *options); }; });
}

}  // namespace sweep::cli
