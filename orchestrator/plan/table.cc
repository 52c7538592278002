#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orchestrator/plan/expand.h"

namespace sweep::plan {

namespace {

constexpr size_t kColumns = 10;
using Cells = std::array<std::string, kColumns>;

std::string acceptance_text(const Job& job) {
  if (job.spec_decoding == "none") return "-";
  std::string text(acceptance_source_name(job.acceptance.source));
  if (job.acceptance.length) text += fmt::format(" {}", *job.acceptance.length);
  return text;
}

Cells row_of(const Job& job) {
  std::string notes;
  if (job.status == Status::kInProgress) notes = "in progress, not dispatched";
  if (job.research_only) notes += notes.empty() ? "research-only" : ", research-only";
  return {job.id,
          job.entry,
          job.runner,
          job.gpus == 0 ? "-" : std::to_string(job.gpus),
          fmt::format("{}/{}", job.isl, job.osl),
          std::to_string(job.concurrency),
          job.spec_decoding == "none" ? "-" : fmt::format("{} {}", job.spec_decoding, job.num_draft_tokens),
          acceptance_text(job),
          std::to_string(job.requests),
          notes};
}

}  // namespace

std::string plan_table(const std::vector<Job>& jobs) {
  std::vector<Cells> rows{
      {"job", "entry", "runner", "gpus", "isl/osl", "conc", "drafts", "acceptance", "requests", "notes"}};
  for (const Job& job : jobs) rows.push_back(row_of(job));
  std::array<size_t, kColumns> widths{};
  for (const Cells& row : rows)
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string table;
  for (const Cells& row : rows) {
    std::string line;
    for (size_t i = 0; i < kColumns; ++i) line += fmt::format("{:<{}}", row[i], i + 1 == kColumns ? 0 : widths[i] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  return table;
}

}  // namespace sweep::plan
