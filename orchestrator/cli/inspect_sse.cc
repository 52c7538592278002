#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "orchestrator/cli/inspection.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/judge/recorded.h"
#include "orchestrator/loadgen/recorded_stream.h"
#include "orchestrator/sample/metrics.h"

namespace sweep::cli {

namespace {

struct SseOptions {
  std::string file;
  std::optional<int64_t> isl;
  std::optional<int64_t> osl;
};

struct Times {
  std::optional<double> ttft_ms, e2e_ms, decode_ms, tpot_ms, mean_itl_ms, mean_gap_ms;
};

Times times_of(const loadgen::RecordedStream& stream) {
  Times times;
  const sample::Sample& s = stream.sample;
  if (!stream.has_times) return times;
  times.ttft_ms = sample::ttft_ms(s);
  times.e2e_ms = sample::e2e_ms(s);
  times.tpot_ms = sample::tpot_ms(s);
  if (times.ttft_ms && times.e2e_ms) times.decode_ms = *times.e2e_ms - *times.ttft_ms;
  if (const auto itl = stats::describe(sample::itl_ms(s))) times.mean_itl_ms = itl->mean;
  if (times.decode_ms && stream.token_events > 1)
    times.mean_gap_ms = *times.decode_ms / static_cast<double>(stream.token_events - 1);
  return times;
}

std::optional<int64_t> tokens_of_first_event(const sample::Sample& sample) {
  return sample.chunks.empty() ? std::nullopt : sample.chunks.front().tokens;
}

std::string against(const std::optional<int64_t>& asked) {
  return asked ? fmt::format("as the server counts; asked {}", *asked)
               : "as the server counts; what was asked is not known";
}

void describe(const loadgen::RecordedStream& stream, const Times& times, Inspection& inspection) {
  const sample::Sample& s = stream.sample;
  inspection.document = {
      {"file", inspection.file},
      {"completed", s.ok()},
      {"has_times", stream.has_times},
      {"http_status", s.status},
      {"isl", optional_json(stream.asked.isl)},
      {"osl", optional_json(stream.asked.osl)},
      {"prompt_tokens", optional_json(s.prompt_tokens)},
      {"completion_tokens", optional_json(s.completion_tokens)},
      {"received_tokens", optional_json(s.received_tokens)},
      {"cached_tokens", optional_json(s.cached_tokens)},
      {"finish_reason", s.finish_reason.empty() ? nlohmann::json() : nlohmann::json(s.finish_reason)},
      {"token_events", stream.token_events},
      {"first_event_tokens", optional_json(tokens_of_first_event(s))},
      {"reads", stream.reads},
      {"bytes", s.bytes},
      {"ttft_ms", optional_json(times.ttft_ms)},
      {"e2e_ms", optional_json(times.e2e_ms)},
      {"decode_ms", optional_json(times.decode_ms)},
      {"tpot_ms", optional_json(times.tpot_ms)},
      {"mean_itl_per_token_ms", optional_json(times.mean_itl_ms)},
      {"mean_gap_per_event_ms", optional_json(times.mean_gap_ms)}};
  inspection.table = {
      {"prompt tokens", shown(s.prompt_tokens), against(stream.asked.isl)},
      {"completion tokens", shown(s.completion_tokens), against(stream.asked.osl)},
      {"received tokens", shown(s.received_tokens), "by token ids, or by the steps of the running usage"},
      {"token events", fmt::format("{}", stream.token_events), "one can hold several tokens"},
      {"finish reason", s.finish_reason.empty() ? "-" : s.finish_reason, ""},
      {"TTFT", shown(times.ttft_ms, 3), "ms, from sending to the first event with tokens"},
      {"E2E", shown(times.e2e_ms, 3), "ms, to the last event with tokens"},
      {"TPOT", shown(times.tpot_ms, 6), "ms, (E2E - TTFT) / (completion tokens - 1)"},
      {"mean ITL per token", shown(times.mean_itl_ms, 6), "ms, each gap divided by the tokens that end it"},
      {"mean gap per event", shown(times.mean_gap_ms, 6), "ms, undivided: a verification step as the client sees it"}};
}

void add_findings(const loadgen::RecordedStream& stream, Inspection& inspection) {
  const sample::Sample& s = stream.sample;
  for (diag::Diagnostic problem : stream.problems) {
    if (!problem.where) problem.where = diag::SourceSpan{.file = inspection.file};
    inspection.findings.add(std::move(problem));
  }
  const auto note = [&](diag::RuleId rule, std::string message) {
    inspection.findings.add(diag::make_at(rule, {.file = inspection.file}, std::move(message)));
  };
  if (!stream.has_times)
    note(diag::rule::load_no_times, "the capture holds bytes without times: no TTFT, TPOT and ITL");
  if (s.completion_tokens.value_or(0) > 0 && !s.received_tokens)
    note(diag::rule::load_received_unknown,
         "neither token ids nor a running usage: tokens rest on the final usage, and there is no per-token ITL");
  inspection.verdict.conditions.push_back(judge::cache_cold(s.cached_tokens, s.prompt_tokens));
}

ExitCode inspect_sse(const Context& context, const SseOptions& options) {
  const auto text = read_capture(options.file, loadgen::kMostCaptureBytes);
  if (!text) return refuse(context, "sse", text.error());
  const auto stream = loadgen::replay(*text, options.file, {.isl = options.isl, .osl = options.osl});
  if (!stream) return refuse(context, "sse", stream.error());
  Inspection inspection{.kind = "sse", .file = options.file};
  describe(*stream, times_of(*stream), inspection);
  add_findings(*stream, inspection);
  return conclude(context, std::move(inspection));
}

}  // namespace

void add_inspect_sse(CLI::App& inspect_command, Action& action) {
  auto options = std::make_shared<SseOptions>();
  CLI::App* command =
      inspect_command.add_subcommand("sse", "A recorded stream: lengths, TTFT, TPOT, ITL of one request");
  command->add_option("file", options->file, "JSON lines with receive times, or the raw bytes of a stream")
      ->required()
      ->type_name("FILE");
  command->add_option("--isl", options->isl, "Prompt tokens that were asked for, where the capture does not say")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  command->add_option("--osl", options->osl, "Output tokens that were asked for, where the capture does not say")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  command->footer(
      "The same parser and checks as in a run. A request that did not do exactly what was asked makes a point "
      "invalid.\n"
      "`sweepctl explain load/malformed-capture` describes the format with times.");
  command->callback(
      [options, &action] { action = [options](Context& context) { return inspect_sse(context, *options); }; });
}

}  // namespace sweep::cli
