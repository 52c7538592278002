#include "orchestrator/weights/download_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/base/hex.h"

namespace sweep::weights {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRecordSuffix = ".metadata";
constexpr std::string_view kIncompleteSuffix = ".incomplete";
constexpr uint64_t kLargestRecord = 4096;
constexpr size_t kCommitDigits = 40;

void read_record(const fs::directory_entry& entry, const std::string& name, DownloadRecords& found) {
  std::error_code error;
  if (!fs::is_regular_file(entry.symlink_status(error))) {
    found.malformed.push_back({.path = name, .reason = "is not a regular file"});
    return;
  }
  const auto text = base::read_file(entry.path(), kLargestRecord);
  DownloadRecord record;
  std::string reason;
  if (!text) {
    found.malformed.push_back({.path = name, .reason = text.error().text()});
  } else if (!parse_download_record(*text, record, reason)) {
    found.malformed.push_back({.path = name, .reason = std::move(reason)});
  } else {
    record.path = name.substr(0, name.size() - kRecordSuffix.size());
    found.records.push_back(std::move(record));
  }
}

}  // namespace

bool parse_download_record(std::string_view text, DownloadRecord& record, std::string& reason) {
  std::array<std::string, 3> lines;
  for (std::string& line : lines) {
    const size_t end = text.find('\n');
    line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  }
  if (!base::is_lower_hex(lines[0], kCommitDigits)) {
    reason = "its first line is not a commit of 40 hex digits";
    return false;
  }
  if (lines[1].empty()) {
    reason = "its second line, the identifier of the file, is empty";
    return false;
  }
  char* end = nullptr;
  const double written = std::strtod(lines[2].c_str(), &end);
  if (lines[2].empty() || *end != '\0' || !std::isfinite(written)) {
    reason = "its third line is not a time";
    return false;
  }
  record.commit = std::move(lines[0]);
  record.etag = std::move(lines[1]);
  record.written = written;
  return true;
}

DownloadRecords read_download_records(const fs::path& folder) {
  DownloadRecords found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().lexically_relative(folder).generic_string();
    if (fs::is_directory(it->symlink_status(ignored))) continue;
    if (name.ends_with(kRecordSuffix))
      read_record(*it, name, found);
    else if (name.ends_with(kIncompleteSuffix))
      found.incomplete.push_back(name);
  }
  if (error) found.malformed.push_back({.path = folder.string(), .reason = "cannot be listed: " + error.message()});
  const auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
  std::sort(found.records.begin(), found.records.end(), by_path);
  std::sort(found.malformed.begin(), found.malformed.end(), by_path);
  std::sort(found.incomplete.begin(), found.incomplete.end());
  return found;
}

std::vector<std::string> incomplete_blobs(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (std::string name = it->path().filename().string(); name.ends_with(kIncompleteSuffix))
      names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sweep::weights
