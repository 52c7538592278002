#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "orchestrator/base/file.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/cli/inspection.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/report/fields.h"
#include "orchestrator/report/table.h"
#include "orchestrator/telemetry/evaluate.h"

namespace sweep::cli {

namespace {

using nlohmann::json;
using report::figure;
using report::number_at;
using report::text_at;

struct PowerOptions {
  std::string capture;
  std::string window;
};

std::optional<std::string> read_input(const std::string& path, uint64_t most_bytes, diag::Diagnostics& out) {
  auto text = base::read_file(path, most_bytes);
  if (text) return std::move(*text);
  out.add(diag::make_at(diag::rule::file_unreadable, {.file = path}, text.error().text()));
  return std::nullopt;
}

struct Inputs {
  std::optional<telemetry::Capture> capture;
  std::optional<telemetry::Window> window;
};

Inputs read_inputs(const PowerOptions& options, diag::Diagnostics& out) {
  constexpr uint64_t kMostWindowBytes = 8u << 20;  // measurement.json holds decode windows too
  Inputs inputs;
  if (const auto text = read_input(options.capture, telemetry::kMostCaptureBytes, out))
    inputs.capture = telemetry::parse_capture(options.capture, *text, out);
  if (auto text = read_input(options.window, kMostWindowBytes, out))
    inputs.window = telemetry::parse_window(options.window, std::move(*text), out);
  return inputs;
}

std::string gpu_table(const json& gpus) {
  report::Table table{
      {{"GPU"}, {"samples", true}, {"longest gap s", true}, {"energy J", true}, {"SM MHz", true}, {"drop %", true}},
      {}};
  for (const json& gpu : gpus) {
    const auto start = number_at(gpu, "clock_start");
    const std::string clocks =
        start ? fmt::format("{} to {}", figure(start, 0), figure(number_at(gpu, "clock_end"), 0)) : "-";
    table.rows.push_back({text_at(gpu, "gpu"), text_at(gpu, "samples"), figure(number_at(gpu, "longest_gap_s"), 3),
                          figure(number_at(gpu, "energy_j"), 3), clocks, figure(number_at(gpu, "drop_pct"), 2)});
  }
  return report::render(table, report::TableStyle::kText);
}

std::string power_text(const report::Inspection& inspection) {
  const json& v = inspection.values;
  std::string out = gpu_table(v["gpus"]);
  out += fmt::format("\nwindow {} s, energy {} J, average {} W in total and {} W a GPU, {} J per output token\n",
                     figure(number_at(v, "window_s"), 3), figure(number_at(v, "total_energy_j"), 3),
                     figure(number_at(v, "avg_total_power_w"), 3), figure(number_at(v, "avg_power_per_gpu_w"), 3),
                     figure(number_at(v, "joules_per_output_token"), 6));
  out += inspection.valid ? "valid\n" : "INVALID: no energy is claimed\n";
  return out;
}

ExitCode inspect_power(const Context& context, const PowerOptions& options) {
  report::Inspection inspection{.kind = "power"};
  const Inputs inputs = read_inputs(options, inspection.findings);
  if (inputs.capture && inputs.window) {
    const bool own = inputs.capture->clock == telemetry::Clock::kMonotonic;
    const telemetry::PowerReport power =
        telemetry::evaluate(*inputs.capture, *inputs.window, own ? telemetry::kLive : telemetry::Requirements{});
    inspection.values = telemetry::values_json(power);
    inspection.valid = power.valid();
    inspection.reasons = power.reasons();
    inspection.findings.add_all(power.findings);
  }
  return conclude(context, inspection, inspection.values.is_null() ? std::string() : power_text(inspection));
}

}  // namespace

void add_inspect_power(CLI::App& inspect_command, Action& action) {
  auto options = std::make_shared<PowerOptions>();
  CLI::App* command = inspect_command.add_subcommand(
      "power", "Energy of GPU samples over exactly the measured window, and its validity");
  command->footer(
      "Reads CSV of `nvidia-smi --query-gpu=... --format=csv`, the DCGM samples of srt-slurm, and power.csv of a run.\n"
      "The window is {\"start\": TIME, \"end\": TIME, \"expected_gpus\": N, \"output_tokens\": N}, a window file of\n"
      "srt-slurm, or measurement.json of a run.\n\n"
      "Examples:\n"
      "  sweepctl inspect power gpu_metrics.csv --window window.json\n"
      "  sweepctl inspect power out/power.csv --window out/measurement.json --format json\n\n"
      "Exit codes: 0 energy may be claimed, 1 a file cannot be read, 2 wrong usage, 5 the samples do not allow it.");
  command->add_option("capture", options->capture, "GPU samples")->required()->type_name("CSV");
  command->add_option("--window", options->window, "The measured window")->required()->type_name("FILE");
  command->callback(
      [options, &action] { action = [options](Context& context) { return inspect_power(context, *options); }; });
}

}  // namespace sweep::cli
