#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "orchestrator/cli/inspection.h"
#include "orchestrator/diag/rules/cli.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/diag/rules/judge.h"
#include "orchestrator/engine/decode_log.h"
#include "orchestrator/judge/recorded.h"

namespace sweep::cli {

namespace {

struct DecodeLogOptions {
  std::string file;
  std::string engine;
  std::string from;
  std::string to;
  std::optional<double> target;
  std::optional<double> within;
  std::optional<int64_t> draft_tokens;
};

constexpr size_t kMostFindings = 20;   // lines of the log
constexpr size_t kMostWindows = 1000;  // in the document; all of them are counted

diag::Result<std::optional<engine::LogTime>> time_of(const std::string& text, std::string_view option) {
  if (text.empty()) return std::optional<engine::LogTime>();
  const auto time = engine::parse_log_time(text);
  if (!time)
    return diag::fail(
        diag::rule::cli_usage, fmt::format("{} \"{}\" is no time", option, text),
        "10:12:30, \"2026-11-03 10:12:30.5\" or \"11-03 10:12:30\", as the log writes it; @SECONDS of Unix "
        "time for the embedded engine");
  return time;
}

// Records that say how much was drafted, but not in how many steps: with the drafts per step they do.
void assign_steps(engine::DecodeLog& log, const std::optional<int64_t>& draft_tokens) {
  if (!draft_tokens || !log.unassigned_drafted || *log.unassigned_drafted < *draft_tokens) return;
  const int64_t steps = *log.unassigned_drafted / *draft_tokens;
  log.windows.push_back(
      {.line = 1,
       .begin_ns = std::nullopt,
       .end_ns = std::nullopt,
       .acceptance_length = 1.0 + static_cast<double>(log.unassigned_accepted.value_or(0)) / static_cast<double>(steps),
       .steps = steps,
       .accepted = log.unassigned_accepted,
       .drafted = log.unassigned_drafted,
       .per_position = {}});
  log.unassigned_drafted.reset();
}

// Independent draws of a forced acceptance: SGLang draws once per step of the batch, the others per request.
int64_t draws_of(const DecodeLogOptions& options, const engine::DecodeLog& log, const engine::WindowSummary& summary) {
  if (options.engine == "sglang" && !log.since_start)
    return summary.windows * log.steps_per_window.value_or(engine::kUsualStepsPerWindow);
  return summary.steps.value_or(0);
}

nlohmann::json windows_json(const engine::DecodeLog& log) {
  nlohmann::json list = nlohmann::json::array();
  for (size_t i = 0; i < std::min(log.windows.size(), kMostWindows); ++i) {
    const engine::DecodeWindow& window = log.windows[i];
    list.push_back({{"line", window.line},
                    {"acceptance_length", window.acceptance_length},
                    {"steps", optional_json(window.steps)},
                    {"accepted", optional_json(window.accepted)},
                    {"drafted", optional_json(window.drafted)}});
  }
  return list;
}

nlohmann::json lines_json(const engine::LogLines& lines) {
  nlohmann::json list = nlohmann::json::array();
  for (const engine::LogLine& line : lines.first) list.push_back({{"line", line.line}, {"text", line.text}});
  return list;
}

void describe(const DecodeLogOptions& options, const engine::DecodeLog& log, const engine::WindowSummary& summary,
              double half_width, Inspection& inspection) {
  const auto drafted = summary.drafted ? summary.drafted : log.unassigned_drafted;
  const auto accepted = summary.accepted ? summary.accepted : log.unassigned_accepted;
  inspection.document = {
      {"engine", options.engine},
      {"file", options.file},
      {"from", options.from.empty() ? nlohmann::json() : nlohmann::json(options.from)},
      {"to", options.to.empty() ? nlohmann::json() : nlohmann::json(options.to)},
      {"windows", summary.windows},
      {"windows_outside", log.windows_outside},
      {"mean", optional_json(summary.mean)},
      {"min", optional_json(summary.min)},
      {"max", optional_json(summary.max)},
      {"mean_is_token_weighted", false},
      {"length", optional_json(summary.length)},
      {"acceptance_length", optional_json(summary.length ? summary.length : summary.mean)},
      {"steps", optional_json(summary.steps)},
      {"drafted", optional_json(drafted)},
      {"accepted", optional_json(accepted)},
      {"per_position", summary.per_position},
      {"draft_tokens", optional_json(options.draft_tokens ? options.draft_tokens : log.draft_tokens)},
      {"forced_length", optional_json(log.forced_length)},
      {"target", optional_json(options.target)},
      {"within", options.within.value_or(judge::recorded_within())},
      {"tolerance", half_width},
      {"jit_lines_in_window", log.compile_lines.count},
      {"jit_lines", lines_json(log.compile_lines)},
      {"error_lines_in_window", log.error_lines.count},
      {"prompt_tokens_computed", optional_json(log.new_tokens)},
      {"prompt_tokens_cached", optional_json(log.cached_tokens)},
      {"since_start", log.since_start},
      {"decode_windows", windows_json(log)}};
  inspection.table = {{"windows", fmt::format("{}", summary.windows),
                       fmt::format("inside the interval; {} outside", log.windows_outside)},
                      {"mean of means", shown(summary.mean, 4), "of the windows, not weighted by their tokens"},
                      {"min", shown(summary.min, 4), ""},
                      {"max", shown(summary.max, 4), ""},
                      {"acceptance length", shown(summary.length, 4),
                       "1 + accepted / steps over all windows, where the log has counts"},
                      {"steps", shown(summary.steps), "of single requests"},
                      {"drafted", shown(drafted), "tokens"},
                      {"accepted", shown(accepted), "draft tokens"},
                      {"compile lines", fmt::format("{}", log.compile_lines.count), "inside the interval"}};
  if (options.target)
    inspection.table.push_back(
        {"tolerance", fmt::format("{:.3f}", half_width),
         options.within ? "as asked" : "0.1, or 3.3 standard deviations of the forced draws if that is more"});
}

void add_remarks(const DecodeLogOptions& options, const engine::DecodeLog& log, Inspection& inspection) {
  auto& remarks = inspection.remarks;
  if (!log.windows.empty() && log.has_times && options.engine != "embedded")
    remarks.push_back(
        "a mean of window means is not token-weighted: the exact length is 1 + accepted / steps of the "
        "engine's counters");
  if (log.windows_outside > 0 && options.engine != "embedded")
    remarks.push_back("a window is dated by its end: the first one inside may hold steps from before the interval");
  if (log.since_start) remarks.push_back("one figure for all since the engine started: warm-up is in it");
  if (log.forced_length)
    remarks.push_back(
        fmt::format("the engine forces an acceptance length of {}: what it says, not what it did", *log.forced_length));
  if (log.unassigned_drafted)
    remarks.push_back("the records do not say how many steps they took: name the drafts per step with --draft-tokens");
  if (options.from.empty() && log.ready_line)
    remarks.push_back(
        fmt::format("without --from, the interval begins where the engine is ready (line {})", *log.ready_line));
}

void add_findings(const DecodeLogOptions& options, const engine::DecodeLog& log, Inspection& inspection) {
  const auto add = [&](diag::RuleId rule, uint32_t line, std::string message, std::string help) {
    inspection.findings.add(
        diag::make_at(rule, {.file = options.file, .line = line}, std::move(message), std::move(help)));
  };
  for (size_t i = 0; i < std::min(log.error_lines.first.size(), kMostFindings); ++i)
    add(diag::rule::engine_log_error, log.error_lines.first[i].line,
        fmt::format("inside the measured interval: {}", log.error_lines.first[i].text), "look into the engine's log");
  if (log.windows.empty() && !log.looks_like.empty())
    add(diag::rule::engine_no_counters, 0, fmt::format("the log has no windows of \"{}\"", options.engine),
        fmt::format("it holds those of another: --engine {}", log.looks_like));
}

ExitCode inspect_decode_log(const Context& context, const DecodeLogOptions& options) {
  const auto from = time_of(options.from, "--from");
  if (!from) return fail(context, from.error());
  const auto to = time_of(options.to, "--to");
  if (!to) return fail(context, to.error());
  const auto text = read_capture(options.file, engine::kMostLogBytes);
  if (!text) return refuse(context, "decode-log", text.error());
  auto log = engine::read_decode_log({.text = *text, .file = options.file, .engine = options.engine},
                                     {.from = *from, .to = *to});
  if (!log) return refuse(context, "decode-log", log.error());
  assign_steps(*log, options.draft_tokens);
  const engine::WindowSummary summary = engine::summarise(log->windows);
  judge::RealisedAcceptance realised{.length = summary.length ? summary.length : summary.mean,
                                     .weighted = summary.length.has_value(),
                                     .windows = {},
                                     .draws = draws_of(options, *log, summary)};
  for (const engine::DecodeWindow& window : log->windows) realised.windows.push_back(window.acceptance_length);
  const judge::AskedAcceptance asked{.length = options.target,
                                     .within = options.within.value_or(judge::recorded_within()),
                                     .exactly = options.within.has_value()};
  Inspection inspection{.kind = "decode-log", .file = options.file};
  describe(options, *log, summary, judge::acceptance_half_width(realised, asked), inspection);
  add_remarks(options, *log, inspection);
  add_findings(options, *log, inspection);
  const auto prompt =
      log->cached_tokens ? std::optional(*log->cached_tokens + log->new_tokens.value_or(0)) : std::nullopt;
  std::string first_compile_line;
  if (log->compile_lines.count != 0) {
    const engine::LogLine& first = log->compile_lines.first.front();
    inspection.lines[diag::rule::judge_jit] = first.line;
    first_compile_line = fmt::format("line {}: {}", first.line, first.text);
  }
  if (!log->windows.empty()) inspection.lines[diag::rule::judge_dead_draft] = log->windows.front().line;
  inspection.verdict.conditions = {
      judge::acceptance_near(realised, asked),
      judge::draft_alive({.drafted = summary.drafted ? summary.drafted : log->unassigned_drafted,
                          .accepted = summary.accepted ? summary.accepted : log->unassigned_accepted,
                          .length = summary.max},
                         asked),
      judge::cache_cold(log->cached_tokens, prompt),
      judge::nothing_compiled(log->compile_lines.count, first_compile_line)};
  return conclude(context, std::move(inspection));
}

}  // namespace

void add_inspect_decode_log(CLI::App& inspect_command, Action& action) {
  auto options = std::make_shared<DecodeLogOptions>();
  CLI::App* command = inspect_command.add_subcommand(
      "decode-log", "An engine's log: acceptance windows, compilation and cache hits inside the measured interval");
  command->add_option("file", options->file, "The log")->required()->type_name("FILE");
  command->add_option("--engine", options->engine, "Whose log it is")
      ->required()
      ->check(CLI::IsMember({"vllm", "sglang", "trtllm", "atom", "embedded"}).description(""))
      ->type_name("vllm|sglang|trtllm|atom|embedded");
  command->add_option("--from", options->from, "When the measured interval began, as the log writes times")
      ->type_name("T");
  command->add_option("--to", options->to, "When it ended; both ends belong to it")->type_name("T");
  command->add_option("--target", options->target, "The acceptance length that was asked for")
      ->check(CLI::Range(1.0, 65.0).description(""))
      ->type_name("AL");
  command
      ->add_option("--within", options->within,
                   "How far from it the mean may be; by default 0.1, or more where chance alone explains more")
      ->check(CLI::Range(0.0, 64.0).description(""))
      ->type_name("X");
  command->add_option("--draft-tokens", options->draft_tokens, "Drafts per step, where the records do not say")
      ->check(CLI::Range(int64_t{1}, int64_t{64}).description(""))
      ->type_name("K");
  command->footer(
      "Times are 10:12:30, \"2026-11-03 10:12:30.5\" or \"11-03 10:12:30\", on the log's own clock. Also read: the "
      "JSON of\n"
      "/metrics and /perf_metrics (trtllm), /debug/mtp_stats (atom) and /server_info (sglang), which have no times.");
  command->callback(
      [options, &action] { action = [options](Context& context) { return inspect_decode_log(context, *options); }; });
}

}  // namespace sweep::cli
