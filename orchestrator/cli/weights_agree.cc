#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/cli/command.h"
#include "orchestrator/diag/rules/cli.h"
#include "orchestrator/report/table.h"
#include "orchestrator/weights/agree.h"

namespace sweep::cli {

namespace {

constexpr size_t kRevisionShown = 12;
constexpr size_t kMostRows = 32;

// Of many hosts only those that do not agree.
std::string table_text(const weights::Agreement& agreement, const std::vector<weights::HostReport>& reports) {
  report::Table table{{{"host"}, {"files", true}, {"bytes", true}, {"revision"}, {"verdict"}}, {}};
  for (size_t i = 0; i < reports.size(); ++i) {
    const bool agrees = agreement.verdicts[i] == weights::HostVerdict::kAgrees;
    if (reports.size() > kMostRows && (agrees || table.rows.size() == kMostRows)) continue;
    const weights::PinnedTotal total = weights::pinned_total(reports[i].report);
    table.rows.push_back({reports[i].host, std::to_string(total.files), std::to_string(total.bytes),
                          reports[i].report.revision.substr(0, kRevisionShown),
                          std::string(weights::host_verdict_name(agreement.verdicts[i]))});
  }
  std::string text = report::render(table, report::TableStyle::kText);
  if (const size_t more = reports.size() - table.rows.size(); more != 0)
    text +=
        fmt::format("  {}{} hosts, {} of them agree\n", more, table.rows.empty() ? "" : " more",
                    std::count(agreement.verdicts.begin(), agreement.verdicts.end(), weights::HostVerdict::kAgrees));
  return text;
}

// "config 2, tokenizer 3, index 1, shard 48"
std::string identical_text(const weights::Agreement& agreement) {
  std::string text;
  for (size_t i = 0; i < weights::kContentClasses; ++i)
    if (agreement.identical_files[i] != 0)
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ",
                      weights::content_class_name(static_cast<weights::ContentClass>(i)), agreement.identical_files[i]);
  return text.empty() ? "none" : text;
}

std::string verdict_text(const weights::Agreement& agreement, const std::vector<weights::HostReport>& reports) {
  std::string text = fmt::format("\n{}: {} report{}; identical files: {}\n", agreement.agreed ? "agreed" : "NOT agreed",
                                 reports.size(), reports.size() == 1 ? "" : "s", identical_text(agreement));
  if (agreement.agreed)
    text += fmt::format("{} at {}\n", report::one_line(reports.front().report.model), reports.front().report.revision);
  if (agreement.from_cache != 0)
    text += fmt::format("{} of {} hosts answered from the verification cache\n", agreement.from_cache, reports.size());
  return text;
}

ExitCode agree(const Context& context, const std::vector<std::string>& names) {
  if (names.size() < 2)
    return fail(context, diag::make(diag::rule::cli_usage, "one report agrees with itself; two or more are compared",
                                    "name the report of every host"));
  diag::Diagnostics unread;
  std::vector<weights::HostReport> reports;
  for (const std::string& name : names) {
    auto report = weights::read_host_report(name);
    if (report)
      reports.push_back(std::move(*report));
    else
      unread.add(std::move(report).error());
  }
  weights::Agreement agreement = weights::agree(reports);
  agreement.findings.add_all(unread);
  agreement.agreed = agreement.agreed && unread.empty();
  if (context.console.format() == Format::kJson) {
    context.console.out(weights::to_json(agreement, reports).dump(2) + "\n");
  } else {
    context.console.report(agreement.findings, {});
    if (!reports.empty()) context.console.out(table_text(agreement, reports) + verdict_text(agreement, reports));
  }
  return agreement.agreed ? ExitCode::kGood : ExitCode::kProblems;
}

}  // namespace

void add_weights_agree(CLI::App& weights_command, Action& action) {
  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* command = weights_command.add_subcommand(
      "agree", "Compare the reports of several hosts: all verified, and the same bytes on each");
  command
      ->add_option("reports", *names,
                   "One for each host: what `sweepctl weights verify --report` wrote, or the folder of a run")
      ->required()
      ->type_name("REPORT");
  command->callback([names, &action] { action = [names](Context& context) { return agree(context, *names); }; });
}

}  // namespace sweep::cli
