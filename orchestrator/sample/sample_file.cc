#include "orchestrator/sample/sample_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "orchestrator/base/json_nesting.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/load.h"

namespace sweep::sample {

namespace {

constexpr std::string_view kKind = "sweepctl-requests";

base::Unexpected<diag::Diagnostic> unwritable(std::string operation, const std::filesystem::path& path) {
  return diag::fail(diag::rule::file_unwritable, base::IoError{std::move(operation), path, errno}.text());
}

// Bytes that are not UTF-8 (a server's error text, say) are replaced rather than refused.
std::string line_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

base::Unexpected<diag::Diagnostic> malformed(const std::filesystem::path& path, uint32_t line, std::string reason) {
  return diag::fail(diag::make_at(diag::rule::file_malformed, {.file = path.string(), .line = line}, std::move(reason),
                                  "delete the file to have the requests measured again"));
}

std::optional<std::string> header_problem(std::string_view line) {
  const auto header = nlohmann::json::parse(line, nullptr, false);
  if (!header.is_object() || header.value("kind", nlohmann::json()) != kKind)
    return fmt::format("the first line is not the header of a file of requests (\"kind\":\"{}\")", kKind);
  const auto version = header.value("schema_version", nlohmann::json());
  if (version != kSampleFileVersion)
    return fmt::format("schema_version is {}, expected {}", version.dump(), kSampleFileVersion);
  return std::nullopt;
}

}  // namespace

SampleWriter::SampleWriter(base::FileDescriptor fd, std::filesystem::path path)
    : fd_(std::move(fd)), path_(std::move(path)) {}

diag::Result<SampleWriter> SampleWriter::create(const std::filesystem::path& path) {
  base::FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.is_open()) return unwritable("create", path);
  SampleWriter writer(std::move(fd), path);
  const auto header = writer.append(
      line_of({{"kind", kKind}, {"schema_version", kSampleFileVersion}, {"tool_version", SWEEPCTL_VERSION}}));
  if (!header) return diag::fail(header.error());
  return writer;
}

diag::Result<diag::Done> SampleWriter::append(std::string line) {
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_.get(), rest.data(), rest.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return unwritable("write", path_);
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return diag::Done{};
}

diag::Result<diag::Done> SampleWriter::write(const Sample& sample) {
  return append(line_of(to_json(sample)));
}

diag::Result<diag::Done> SampleWriter::sync() {
  if (::fsync(fd_.get()) != 0) return unwritable("sync", path_);
  return diag::Done{};
}

diag::Result<SampleFile> read_samples(const std::filesystem::path& path) {
  const auto content = base::read_file(path);
  if (!content) return diag::fail(diag::rule::file_unreadable, content.error().text());
  return parse_samples(*content, path);
}

diag::Result<SampleFile> parse_samples(std::string_view content, const std::filesystem::path& path) {
  SampleFile file;
  int64_t tokens = 0;
  std::string_view rest = content;
  for (uint32_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) {
      if (number == 1) return malformed(path, number, "the file ends within its first line");
      file.cut = diag::make_at(diag::rule::load_file_cut, {.file = path.string(), .line = number},
                               fmt::format("the last line is incomplete ({} bytes); {} requests before it are whole",
                                           rest.size(), file.samples.size()));
      return file;
    }
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (base::json_nesting(line) > base::kDeepestJson)
      return malformed(path, number, fmt::format("the line nests deeper than {} levels", base::kDeepestJson));
    if (number == 1) {
      if (auto problem = header_problem(line)) return malformed(path, number, std::move(*problem));
      continue;
    }
    auto sample = sample_from_json(nlohmann::json::parse(line, nullptr, false));
    if (!sample) return malformed(path, number, sample.error().message);
    for (const Chunk& chunk : sample->chunks) tokens += chunk.tokens.value_or(0);
    if (tokens > kMostTokens) return malformed(path, number, fmt::format("there are more than {} tokens", kMostTokens));
    file.samples.push_back(std::move(*sample));
  }
  if (content.empty()) return malformed(path, 1, "the file is empty");
  return file;
}

}  // namespace sweep::sample
