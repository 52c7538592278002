#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "orchestrator/report/fields.h"
#include "orchestrator/report/summary.h"

namespace sweep::report {

namespace {

using nlohmann::json;

struct Colours {
  std::string_view good, bad, warn, dim, off;
};
constexpr Colours kPlain{};
constexpr Colours kAnsi{"\x1b[1;32m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[2m", "\x1b[0m"};

std::string verdict_line(const json& r, const Colours& c) {
  if (flag_at(r, "valid")) return fmt::format("{}VALID{}", c.good, c.off);
  return fmt::format("{}INVALID{}", c.bad, c.off);
}

std::string banner(const json& r, const Colours& c) {
  if (!flag_at(r, "research_only")) return {};
  std::string out =
      fmt::format("{}RESEARCH ONLY{}: not an official result. {}\n", c.warn, c.off, text_at(r, "authorization"));
  for (const json& deviation : at(r, "deviations"))
    if (deviation.is_string()) out += fmt::format("  - {}\n", deviation.get<std::string>());
  return out;
}

std::string latency_row(const json& r, std::string_view label, const std::string& path, int digits) {
  return fmt::format("  {:<22}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}\n", label,
                     figure(number_at(r, path + "/mean"), digits), figure(number_at(r, path + "/stddev"), digits),
                     figure(number_at(r, path + "/p50"), digits), figure(number_at(r, path + "/p90"), digits),
                     figure(number_at(r, path + "/p99"), digits), text_at(r, path + "/count"));
}

std::string latency_table(const json& r, const Colours& c) {
  std::string out = fmt::format("  {}{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}{}\n", c.dim, "ms", "mean", "stddev",
                                "p50", "p90", "p99", "n", c.off);
  for (const LatencyRow& row : latency_rows(r)) out += latency_row(r, row.label, row.path, row.digits);
  return out + "  - = too few samples for this percentile\n";
}

std::string throughput_line(const json& r) {
  return fmt::format("  throughput             {} output tokens/s over {} s\n",
                     figure(number_at(r, "throughput/output_tokens_per_second"), 1),
                     figure(number_at(r, "throughput/window_seconds"), 2));
}

std::string acceptance_line(const json& r) {
  const auto realised = number_at(r, "acceptance/realised");
  if (!realised) return "  acceptance length      not measured\n";
  std::string line = fmt::format("  acceptance length      {:.3f} realised over {} verification steps", *realised,
                                 text_at(r, "acceptance/steps"));
  if (const auto asked = number_at(r, "acceptance/requested"))
    line += fmt::format(" ({} asked: {} +- {})", text_at(r, "acceptance/source"), *asked,
                        figure(number_at(r, "acceptance/tolerance"), 3));
  return line + "\n";
}

}  // namespace

std::string summary_text(const json& r, bool colour) {
  const Colours& c = colour ? kAnsi : kPlain;
  std::string out = fmt::format("\n{}  {}\n", text_at(r, "entry"), verdict_line(r, c));
  for (const json& reason : at(r, "reasons"))
    if (reason.is_string()) out += fmt::format("  {}x{} {}\n", c.bad, c.off, reason.get<std::string>());
  out += banner(r, c);
  out += fmt::format("\n  model                  {} @ {}\n", text_at(r, "point/model"), text_at(r, "point/revision"));
  out += fmt::format(
      "  workload               {} in / {} out, {}, {} requests ({} failed), {} before them to warm up\n",
      text_at(r, "workload/isl"), text_at(r, "workload/osl"), load_text(r), text_at(r, "workload/measured_requests"),
      text_at(r, "workload/failed_requests"), text_at(r, "workload/warmup_requests"));
  out += acceptance_line(r);
  out += throughput_line(r);
  if (const std::string step = step_text(r); !step.empty()) out += fmt::format("  verification step      {}\n", step);
  if (flag_at(r, "power/measured")) out += fmt::format("  power                  {}\n", power_text(r));
  out += fmt::format("  weights                {}\n", weights_text(r));
  out += fmt::format("  kernels                {}-{}, gate {} ({} cells){}\n\n", text_at(r, "kernels/arch"),
                     text_at(r, "kernels/content_id"), text_at(r, "kernels/gate/verdict"),
                     text_at(r, "kernels/gate/cells"), kernels_note(r));
  out += latency_table(r, c);
  out += "\nScope\n";
  for (const json& statement : at(r, "scope"))
    if (statement.is_string()) out += fmt::format("  - {}\n", statement.get<std::string>());
  return out;
}

std::string requests_text(const json& figures, bool colour) {
  const Colours& c = colour ? kAnsi : kPlain;
  std::string out =
      fmt::format("\n  requests               {} measured ({} failed), {} before them to warm up\n",
                  text_at(figures, "workload/measured_requests"), text_at(figures, "workload/failed_requests"),
                  text_at(figures, "workload/warmup_requests"));
  for (const auto& [rule, count] : at(figures, "problems").items())
    out += fmt::format("  {}x{} {} requests: {}\n", c.bad, c.off, count.dump(), rule);
  out += fmt::format("  tokens                 {} prompt, {} output\n", text_at(figures, "workload/prompt_tokens"),
                     text_at(figures, "workload/output_tokens"));
  return out + throughput_line(figures) + "\n" + latency_table(figures, c);
}

}  // namespace sweep::report
