#include "orchestrator/report/github_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace sweep::report {

namespace {

// A line that does not occur in the value.
std::string delimiter_for(std::string_view value) {
  for (size_t number = 0;; ++number) {
    std::string delimiter = fmt::format("sweepctl_end_{}", number);
    if (value.find(delimiter) == std::string_view::npos) return delimiter;
  }
}

struct BucketLine {
  std::string bucket;
  size_t chunks = 0;
  size_t rows = 0;
};

std::vector<BucketLine> lines_of(std::span<const plan::Chunk> chunks) {
  std::vector<BucketLine> lines;
  for (const plan::Chunk& chunk : chunks) {
    if (lines.empty() || lines.back().bucket != chunk.bucket) lines.push_back({chunk.bucket, 0, 0});
    ++lines.back().chunks;
    lines.back().rows += chunk.rows;
  }
  return lines;
}

BucketLine total_of(const std::vector<BucketLine>& lines) {
  BucketLine total{"all", 0, 0};
  for (const BucketLine& line : lines) {
    total.chunks += line.chunks;
    total.rows += line.rows;
  }
  return total;
}

}  // namespace

std::string output_lines(std::span<const StepOutput> outputs) {
  std::string text;
  for (const StepOutput& output : outputs) {
    const std::string delimiter = delimiter_for(output.value);
    text += fmt::format("{}<<{}\n{}\n{}\n", output.name, delimiter, output.value, delimiter);
  }
  return text;
}

size_t output_bytes(std::span<const StepOutput> outputs) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const StepOutput& output : outputs) object[output.name] = output.value;
  return plan::utf16_bytes(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::string chunk_markdown(std::span<const plan::Chunk> chunks) {
  const std::vector<BucketLine> lines = lines_of(chunks);
  const BucketLine total = total_of(lines);
  std::string text = fmt::format("**{} job{}** in {} chunk{} of at most {}\n\n", total.rows, total.rows == 1 ? "" : "s",
                                 total.chunks, total.chunks == 1 ? "" : "s", plan::kMatrixJobs);
  if (lines.empty()) return text;
  text += "| bucket | jobs | chunks |\n|---|---:|---:|\n";
  for (const BucketLine& line : lines) text += fmt::format("| `{}` | {} | {} |\n", line.bucket, line.rows, line.chunks);
  return text;
}

std::string chunk_text(std::span<const plan::Chunk> chunks) {
  std::vector<BucketLine> lines = lines_of(chunks);
  lines.push_back(total_of(lines));
  size_t width = std::string_view("bucket").size();
  for (const BucketLine& line : lines) width = std::max(width, line.bucket.size());
  std::string text = fmt::format("{:<{}}  {:>6}  {:>6}\n", "bucket", width, "jobs", "chunks");
  for (const BucketLine& line : lines)
    text += fmt::format("{:<{}}  {:>6}  {:>6}\n", line.bucket, width, line.rows, line.chunks);
  return text;
}

}  // namespace sweep::report
