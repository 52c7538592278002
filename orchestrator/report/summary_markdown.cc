#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "orchestrator/report/fields.h"
#include "orchestrator/report/summary.h"

namespace sweep::report {

namespace {

using nlohmann::json;

// Text from files must not become markup or break a table row.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\n':
      case '\r':
        out += ' ';
        break;
      case '<':
        out += "&lt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '|':
      case '*':
      case '_':
      case '`':
      case '[':
      case '\\':
        out += '\\';
        out += c;
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string cell(const json& r, std::string_view path) {
  return escaped(text_at(r, path));
}

std::string latency_row(const json& r, std::string_view label, const std::string& path, int digits) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", label, figure(number_at(r, path + "/mean"), digits),
                     figure(number_at(r, path + "/stddev"), digits), figure(number_at(r, path + "/p50"), digits),
                     figure(number_at(r, path + "/p90"), digits), figure(number_at(r, path + "/p99"), digits),
                     text_at(r, path + "/count"));
}

std::string banner(const json& r) {
  if (!flag_at(r, "research_only")) return {};
  std::string out =
      fmt::format("> [!WARNING]\n> **Research only: not an official result.** {}\n", cell(r, "authorization"));
  for (const json& deviation : at(r, "deviations"))
    if (deviation.is_string()) out += fmt::format("> - {}\n", escaped(deviation.get<std::string>()));
  return out + "\n";
}

std::string verdict(const json& r) {
  std::string out = fmt::format("**Verdict: {}**\n\n", flag_at(r, "valid") ? "valid" : "INVALID");
  for (const json& reason : at(r, "reasons"))
    if (reason.is_string()) out += fmt::format("- {}\n", escaped(reason.get<std::string>()));
  return at(r, "reasons").empty() ? out : out + "\n";
}

std::string facts(const json& r) {
  const auto requested = number_at(r, "acceptance/requested");
  std::string acceptance = "not measured";
  if (const auto realised = number_at(r, "acceptance/realised")) {
    acceptance = fmt::format("{:.3f} realised over {} verification steps", *realised, text_at(r, "acceptance/steps"));
    if (requested)
      acceptance += fmt::format("; {} asked: {} ± {}", text_at(r, "acceptance/source"), *requested,
                                figure(number_at(r, "acceptance/tolerance"), 3));
  }
  std::string out = "| | |\n| --- | --- |\n";
  out += fmt::format("| Model | {} at `{}` |\n", cell(r, "point/model"), cell(r, "point/revision"));
  out += fmt::format("| Engine | {} {} on {} |\n", cell(r, "engine/name"), cell(r, "engine/version"),
                     cell(r, "provenance/host/cpu"));
  out += fmt::format("| Workload | {} in / {} out, {}, {} requests, {} failed, {} before them to warm up |\n",
                     cell(r, "workload/isl"), cell(r, "workload/osl"), escaped(load_text(r)),
                     cell(r, "workload/measured_requests"), cell(r, "workload/failed_requests"),
                     cell(r, "workload/warmup_requests"));
  out += fmt::format("| Acceptance length | {} |\n", acceptance);
  out += fmt::format("| Output throughput | {} tokens/s over {} s |\n",
                     figure(number_at(r, "throughput/output_tokens_per_second"), 1),
                     figure(number_at(r, "throughput/window_seconds"), 2));
  if (const std::string step = step_text(r); !step.empty())
    out += fmt::format("| Verification step | {} |\n", escaped(step));
  out += fmt::format("| Weights | {} |\n", escaped(weights_text(r)));
  out += fmt::format("| Kernels | {}-{}, SHA-256 `{}`, gate {} ({} cells){} |\n", cell(r, "kernels/arch"),
                     cell(r, "kernels/content_id"), cell(r, "kernels/library_sha256"), cell(r, "kernels/gate/verdict"),
                     cell(r, "kernels/gate/cells"), kernels_note(r));
  out += fmt::format("| Power | {} |\n", escaped(power_text(r)));
  return out + "\n";
}

std::string capitalised(std::string_view label) {
  std::string text(label);
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string latency_table(const json& r) {
  std::string out = "| ms | mean | stddev | p50 | p90 | p99 | n |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const LatencyRow& row : latency_rows(r)) out += latency_row(r, capitalised(row.label), row.path, row.digits);
  return out + "\nA dash means too few samples for that percentile.\n";
}

std::string conditions(const json& r) {
  std::string out = "<details><summary>Conditions</summary>\n\n| condition | outcome | found |\n| --- | --- | --- |\n";
  for (const json& condition : at(r, "conditions"))
    out +=
        fmt::format("| {} | {} | {} |\n", cell(condition, "rule"), cell(condition, "outcome"), cell(condition, "text"));
  return out + "\n</details>\n";
}

}  // namespace

std::string summary_markdown(const json& r) {
  std::string out = fmt::format("## {}\n\n", cell(r, "entry"));
  out += banner(r);
  out += verdict(r);
  out += facts(r);
  out += latency_table(r);
  out += "\n### Scope\n\n";
  for (const json& statement : at(r, "scope"))
    if (statement.is_string()) out += fmt::format("- {}\n", escaped(statement.get<std::string>()));
  return out + "\n" + conditions(r);
}

std::string requests_markdown(const json& figures) {
  std::string out = fmt::format("{} requests measured, {} of them failed; {} before them to warm up.\n\n",
                                cell(figures, "workload/measured_requests"), cell(figures, "workload/failed_requests"),
                                cell(figures, "workload/warmup_requests"));
  for (const auto& [rule, count] : at(figures, "problems").items())
    out += fmt::format("- {} requests: {}\n", count.dump(), escaped(rule));
  out += fmt::format("\n{} output tokens/s over {} s\n\n",
                     figure(number_at(figures, "throughput/output_tokens_per_second"), 1),
                     figure(number_at(figures, "throughput/window_seconds"), 2));
  return out + latency_table(figures);
}

}  // namespace sweep::report
