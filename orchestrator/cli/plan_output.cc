#include "orchestrator/cli/plan_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/plan/chunks.h"

namespace sweep::cli {

namespace {

namespace fs = std::filesystem;
using report::StepOutput;

const char* named_file(const char* variable) {
  const char* path = std::getenv(variable);
  return path == nullptr || *path == '\0' ? nullptr : path;
}

diag::Result<diag::Done> append_to(const char* variable, std::string_view text) {
  const char* path = named_file(variable);
  if (path == nullptr) return diag::Done{};  // normal outside of Actions
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.flush();
  if (!file) return diag::fail(diag::rule::file_unwritable, fmt::format("cannot append to ${} ({})", variable, path));
  return diag::Done{};
}

diag::Result<diag::Done> write_chunk_files(const fs::path& folder, std::span<const plan::Chunk> chunks) {
  const auto failed = [](const base::IoError& error) { return diag::fail(diag::rule::file_unwritable, error.text()); };
  if (const auto made = base::make_directories(folder); !made) return failed(made.error());
  for (const plan::Chunk& chunk : chunks)
    if (const auto written = base::write_file_atomic(folder / (chunk.id + ".json"), chunk.json + "\n"); !written)
      return failed(written.error());
  if (const auto written = base::write_file_atomic(folder / "gate.json", plan::gate_json(chunks) + "\n"); !written)
    return failed(written.error());
  return diag::Done{};
}

std::vector<StepOutput> outputs_of(std::span<const plan::Chunk> chunks, bool with_rows) {
  nlohmann::json ids = nlohmann::json::array();
  size_t rows = 0;
  for (const plan::Chunk& chunk : chunks) {
    ids.push_back(chunk.id);
    rows += chunk.rows;
  }
  std::vector<StepOutput> outputs{{"row-count", std::to_string(rows)},
                                  {"chunk-count", std::to_string(chunks.size())},
                                  {"chunks", ids.dump()},
                                  {"gate", plan::gate_json(chunks)}};
  if (with_rows)
    for (const plan::Chunk& chunk : chunks) outputs.push_back({chunk.id, chunk.json});
  return outputs;
}

}  // namespace

std::string github_help(std::string_view more) {
  return fmt::format(
      "With --github these outputs are appended to $GITHUB_OUTPUT:\n"
      "  row-count, chunk-count   how many jobs, in how many chunks\n"
      "  chunks                   [\"single_node_8k1k_1\", ...]: the axis of a matrix that calls a reusable workflow\n"
      "  gate                     [{{\"id\", \"bucket\", \"rows\"}}, ...]: what must have run; fail if a chunk did "
      "not\n"
      "  <chunk>                  the rows of one chunk, [{{...}}, ...], at most 256, each row in exactly one chunk\n"
      "{}"
      "A job hands all of them on with `plan: ${{{{ toJSON(steps.ID.outputs) }}}}`; a caller takes the rows of a chunk "
      "from\n"
      "fromJSON(needs.JOB.outputs.plan)[matrix.chunk]. Outputs hold 1 MB a job: more is refused, and --chunk-dir "
      "writes\n"
      "the rows into DIR/<chunk>.json for an artifact instead. A table goes to $GITHUB_STEP_SUMMARY.",
      more);
}

void add_github_options(CLI::App& command, GithubOptions& options) {
  CLI::Option* github = command.add_flag("--github", options.enabled,
                                         "Write chunks of at most 256 rows to $GITHUB_OUTPUT; see below for the names");
  command.add_option("--chunk-dir", options.chunk_dir, "With --github: rows into DIR/<chunk>.json, not into outputs")
      ->needs(github)
      ->type_name("DIR");
}

ExitCode hand_over(const Context& context, std::span<const plan::Bucket> buckets, const GithubOptions& options,
                   std::vector<StepOutput> more) {
  const std::vector<plan::Chunk> chunks = plan::make_chunks(buckets);
  const bool as_files = !options.chunk_dir.empty();
  std::vector<StepOutput> outputs = outputs_of(chunks, !as_files);
  outputs.insert(outputs.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  if (const size_t bytes = report::output_bytes(outputs); bytes > plan::kJobOutputBytes)
    return fail(context, diag::make(diag::rule::plan_output_limit,
                                    fmt::format("the outputs would have {} bytes in UTF-16, a job may have {}", bytes,
                                                plan::kJobOutputBytes),
                                    as_files ? "select fewer rows"
                                             : "add --chunk-dir DIR and upload the folder, or select fewer rows"));
  if (as_files)
    if (const auto written = write_chunk_files(options.chunk_dir, chunks); !written)
      return fail(context, written.error());
  if (const auto written = append_to("GITHUB_OUTPUT", report::output_lines(outputs)); !written)
    return fail(context, written.error());
  if (const auto written = append_to("GITHUB_STEP_SUMMARY", report::chunk_markdown(chunks)); !written)
    return fail(context, written.error());
  context.console.out(report::chunk_text(chunks));
  if (named_file("GITHUB_OUTPUT") == nullptr && !context.quiet)
    context.console.err("GITHUB_OUTPUT is not set: no outputs were written\n");
  return ExitCode::kGood;
}

diag::Diagnostics joined(const diag::Diagnostics& files, const diag::Diagnostics& rows) {
  diag::Diagnostics all = files;
  all.add_all(rows);
  all.normalise();
  return all;
}

void demote_unknown_runners(diag::Diagnostics& diagnostics) {
  diag::Diagnostics kept;
  for (diag::Diagnostic diagnostic : diagnostics.items()) {
    if (diagnostic.rule == diag::rule::matrix_unknown_runner) diagnostic.severity = diag::Severity::kWarning;
    kept.add(std::move(diagnostic));
  }
  diagnostics = std::move(kept);
}

}  // namespace sweep::cli
