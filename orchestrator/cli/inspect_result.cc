#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/base/file.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/cli/inspection.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/judge/result_rows.h"
#include "orchestrator/pipeline/recheck.h"
#include "orchestrator/report/fields.h"
#include "orchestrator/report/table.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::cli {

namespace {

using nlohmann::json;

report::Inspection inspect_rows(const yaml::Document& document) {
  const judge::ResultRows rows = judge::check_result_rows(document);
  report::Inspection inspection;
  inspection.findings.add_all(rows.findings);
  if (!rows.readable) return inspection;
  inspection.values = judge::values_json(rows);
  inspection.valid = !rows.findings.has_errors();
  for (const diag::Diagnostic& d : rows.findings.items())
    if (d.severity == diag::Severity::kError) inspection.reasons.push_back(d.message);
  return inspection;
}

report::Inspection inspect_file(const std::filesystem::path& file) {
  report::Inspection unread;
  auto text = base::read_file(file);
  if (!text) {
    unread.findings.add(diag::make_at(diag::rule::file_unreadable, {.file = file.string()}, text.error().text()));
    return unread;
  }
  const auto document = yaml::parse_json(file.string(), std::move(*text), unread.findings);
  if (!document || unread.findings.has_errors()) return unread;
  return judge::holds_result_rows(*document) ? inspect_rows(*document) : pipeline::recheck(file);
}

std::string row_table(const json& values) {
  report::Table table{{{"row"}, {"GPUs", true}, {"output tokens/s/GPU", true}, {"statements"}}, {}};
  const json& conflicts = values["conflict"];
  for (const auto& [id, gpus] : values["gpus"].items()) {
    const bool conflict = std::find(conflicts.begin(), conflicts.end(), id) != conflicts.end();
    table.rows.push_back({id, gpus.is_null() ? "-" : gpus.dump(),
                          report::figure(report::number_at(values["output_tput_per_gpu"], id), 3),
                          conflict ? "differ" : "agree"});
  }
  return report::render(table, report::TableStyle::kText);
}

std::string difference_table(const json& differences) {
  report::Table table{{{"field"}, {"stated", true}, {"recomputed", true}}, {}};
  for (const json& d : differences)
    table.rows.push_back({d["field"].get<std::string>(), d["stated"].dump(), d["recomputed"].dump()});
  return report::render(table, report::TableStyle::kText);
}

std::string text_of(const report::Inspection& inspection) {
  const json& v = inspection.values;
  std::string out;
  if (!v.contains("differences")) {
    out = row_table(v);
  } else if (!v.contains("latency_ms")) {
    out = "nothing was computed again: the raw records are not beside the result\n";
  } else if (v["differences"].empty()) {
    out = "every figure is as computed again from the raw records\n";
  } else {
    out = difference_table(v["differences"]) + fmt::format("{} figures differ\n", v["differences"].size());
  }
  if (const auto rate = report::number_at(v, "output_tput_per_gpu"))
    out += fmt::format("{:.3f} output tokens/s for each of {} GPUs\n", *rate, v["gpus"].dump());
  return out + (inspection.valid ? "valid\n" : "INVALID\n");
}

ExitCode inspect_result(const Context& context, const std::string& name) {
  std::filesystem::path file = name;
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) file /= "result.json";
  report::Inspection inspection = inspect_file(file);
  inspection.kind = "result";
  return conclude(context, inspection, inspection.values.is_null() ? std::string() : text_of(inspection));
}

}  // namespace

void add_inspect_result(CLI::App& inspect_command, Action& action) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = inspect_command.add_subcommand(
      "result", "Whether a result follows from its raw records, and from how many GPUs it is");
  command->footer(
      "Reads result.json of a run, and flat rows as dashboards collect them (agg_*.json, one or a list).\n"
      "Of a run, everything is computed again from what lies beside the result: latencies, throughput and counts from\n"
      "requests.jsonl, the conditions with measurement.json, the energy from power.csv. Of rows, GPUs are\n"
      "workers x tp x pp x pcp; ep and dcp share these ranks.\n\n"
      "Examples:\n"
      "  sweepctl inspect result out/result.json\n"
      "  sweepctl inspect result agg_rows.json --format json\n\n"
      "Exit codes: 0 valid and as recomputed, 1 the file cannot be read, 2 wrong usage, 5 invalid or different.");
  command->add_option("file", *file, "A run's result.json, its folder, or a file of rows")
      ->required()
      ->type_name("FILE");
  command->callback([file, &action] { action = [file](Context& context) { return inspect_result(context, *file); }; });
}

}  // namespace sweep::cli
