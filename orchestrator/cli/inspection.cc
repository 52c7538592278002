#include "orchestrator/cli/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/judge.h"

namespace sweep::cli {

namespace {

constexpr int kSchemaVersion = 1;

// What to do about a condition that failed; empty where the text says it all.
std::string help_for(diag::RuleId rule) {
  if (rule == diag::rule::judge_jit) return "warm up with requests of the same shapes before the measured ones";
  if (rule == diag::rule::judge_prefix_cache)
    return "use prompts that share nothing, flush the cache, or switch it off";
  if (rule == diag::rule::judge_dead_draft)
    return "check that the draft weights were loaded and belong to this model, then measure again";
  return {};
}

std::string table_text(const std::vector<Figure>& table) {
  size_t names = 0;
  size_t values = 0;
  for (const Figure& figure : table) {
    names = std::max(names, figure.name.size());
    values = std::max(values, figure.value.size());
  }
  std::string text;
  for (const Figure& figure : table) {
    std::string line = fmt::format("  {:<{}}  {:>{}}  {}", figure.name, names, figure.value, values, figure.how);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

nlohmann::json conditions_json(const judge::Verdict& verdict) {
  nlohmann::json list = nlohmann::json::array();
  for (const judge::Condition& condition : verdict.conditions)
    list.push_back({{"rule", diag::rule_info(condition.rule).slug},
                    {"outcome", judge::outcome_name(condition.outcome)},
                    {"text", condition.text}});
  return list;
}

}  // namespace

ExitCode conclude(const Context& context, Inspection inspection) {
  for (const judge::Condition& condition : inspection.verdict.conditions) {
    if (condition.outcome != judge::Outcome::kFailed) continue;
    const auto line = inspection.lines.find(condition.rule);
    const diag::SourceSpan where{.file = inspection.file, .line = line != inspection.lines.end() ? line->second : 0};
    inspection.findings.add(diag::make_at(condition.rule, where, condition.text, help_for(condition.rule)));
  }
  inspection.findings.normalise();
  const bool valid = !inspection.findings.has_errors();
  if (context.console.format() == Format::kJson) {
    nlohmann::json reasons = nlohmann::json::array();
    for (const diag::Diagnostic& finding : inspection.findings.items())
      if (finding.severity == diag::Severity::kError) reasons.push_back(finding.message);
    nlohmann::json document = {{"schema_version", kSchemaVersion}, {"kind", inspection.kind}};
    document.update(inspection.document);
    document["conditions"] = conditions_json(inspection.verdict);
    document["valid"] = valid;
    document["reasons"] = std::move(reasons);
    document.update(diag::to_json(inspection.findings));
    context.console.out(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return valid ? ExitCode::kGood : ExitCode::kInvalid;
  }
  std::string text = fmt::format("{}\n{}", inspection.file, table_text(inspection.table));
  for (const std::string& remark : inspection.remarks) text += fmt::format("  {}\n", remark);
  for (const judge::Condition& condition : inspection.verdict.conditions)
    text += fmt::format("  {:<14}  {}\n", judge::outcome_name(condition.outcome), condition.text);
  text += valid ? "valid as far as this capture shows\n" : "NOT valid\n";
  context.console.out(text);
  context.console.report(std::move(inspection.findings), {});
  return valid ? ExitCode::kGood : ExitCode::kInvalid;
}

ExitCode conclude(const Context& context, const report::Inspection& inspection, const std::string& text) {
  if (context.console.format() == Format::kJson) {
    context.console.out(report::to_json(inspection).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
                        "\n");
  } else {
    context.console.report(inspection.findings, {});
    context.console.out(text);
  }
  if (inspection.values.is_null()) return ExitCode::kProblems;
  return inspection.valid ? ExitCode::kGood : ExitCode::kInvalid;
}

ExitCode refuse(const Context& context, std::string_view kind, const diag::Diagnostic& finding) {
  if (context.console.format() == Format::kJson) {
    diag::Diagnostics findings;
    findings.add(finding);
    nlohmann::json document = {
        {"schema_version", kSchemaVersion}, {"kind", kind}, {"valid", false}, {"reasons", {finding.message}}};
    document.update(diag::to_json(findings));
    context.console.out(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  return fail(context, finding);
}

diag::Result<std::string> read_capture(const std::string& path, uint64_t most) {
  auto content = base::read_file(path, most);
  if (content) return std::move(*content);
  if (content.error().error_number == EFBIG)
    return diag::fail(diag::make_at(diag::rule::file_too_large, {.file = path},
                                    fmt::format("more than {} MiB, which no capture of this kind has", most >> 20)));
  return diag::fail(diag::rule::file_unreadable, content.error().text());
}

std::string shown(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : "-";
}

std::string shown(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : "-";
}

nlohmann::json optional_json(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json optional_json(const std::optional<int64_t>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace sweep::cli
