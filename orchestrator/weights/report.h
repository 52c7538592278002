// The outcome of a verification: what was found, file by file, and everything that is wrong.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::weights {

inline constexpr int kReportVersion = 1;

enum class FileStatus : uint8_t {
  kOk,
  kMissing,
  kSizeMismatch,  // and therefore another content
  kHashMismatch,
  kNotPinned,  // its content could not be compared with anything
  kExtra,
  kUnreadable,
  kChanged,
  kNotChecked,
  kIdentifierOnly,  // its download record names what is pinned; its content was not read
};
std::string_view file_status_name(FileStatus status);  // "ok", "missing", "size-mismatch", ...
std::optional<FileStatus> parse_file_status(std::string_view text);

struct FileReport {
  std::string path;
  std::optional<uint64_t> size;       // as found
  std::optional<std::string> sha256;  // as found
  FileStatus status = FileStatus::kNotChecked;

  friend bool operator==(const FileReport&, const FileReport&) = default;
};

struct Report {
  std::string model;
  std::string revision;
  bool verified = false;  // everything is there, pinned and right
  bool cancelled = false;
  std::vector<FileReport> files;  // by path; extra files included
  uint64_t bytes = 0;             // hashed
  double seconds = 0;             // wall clock
  diag::Diagnostics findings;     // in a stable order
};

// {"schema_version","model","revision","verified","cancelled","files":[{"path","size","sha256","status"}],"bytes",
//  "seconds","findings":[diagnostics],"errors","warnings"}
nlohmann::json to_json(const Report& report);

// The findings come back as rule, severity, message, help and path.
diag::Result<Report> report_from_json(const nlohmann::json& json);

}  // namespace sweep::weights
