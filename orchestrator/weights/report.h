// The outcome of a verification: what was found, file by file, and everything that is wrong.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/weights/file_stamp.h"
#include "orchestrator/weights/hash_files.h"
#include "orchestrator/weights/layout.h"
#include "orchestrator/weights/pin.h"

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

// How the content of a file is known.
enum class Proof : uint8_t {
  kNone,    // it is not: missing, unreadable, changed while it was read, or not looked at
  kHashed,  // every byte was read
  kCached,  // hashed before, and the file's stamp is the same since
};
std::string_view proof_name(Proof proof);  // "none", "hashed", "cached"
std::optional<Proof> parse_proof(std::string_view text);

struct FileReport {
  std::string path;
  std::optional<uint64_t> size;       // as found
  std::optional<std::string> sha256;  // as found
  FileStatus status = FileStatus::kNotChecked;
  std::optional<std::string> git_blob = {};  // as found, where it was computed
  Proof proof = Proof::kNone;
  std::optional<FileStamp> stamp = {};  // that its content had, if a stamp can prove that
  // What the pin says, where that is not what was found.
  std::optional<uint64_t> expected_size = {};
  std::optional<std::string> expected_sha256 = {};
  std::optional<std::string> expected_git_blob = {};

  friend bool operator==(const FileReport&, const FileReport&) = default;
};

// Sets what the pin says where that is not what was found.
void note_expected(FileReport& file, const PinnedFile& pinned);

struct Report {
  std::string model;
  std::string revision;
  bool verified = false;  // everything is there, pinned and right
  bool cancelled = false;
  std::vector<FileReport> files;  // by path; extra files included
  uint64_t bytes = 0;             // hashed
  double seconds = 0;             // wall clock
  diag::Diagnostics findings;     // in a stable order
  std::string host = {};          // where the folder is; empty in reports that do not say
  std::string layout{layout_name(Layout::kPlain)};
  std::string pin_sha256 = {};  // pin_digest of the pin; empty in reports that do not say
  uint64_t bytes_cached = 0;    // of files with Proof::kCached
};

// {"schema_version","host","model","revision","pin_sha256","layout","verified","cancelled","files":[{"path","size",
//  "sha256","git_blob","status","proof","expected_size","expected_sha256","expected_git_blob","stamp":{"device","inode",
//  "mtime_ns","ctime_ns"}}],"bytes","bytes_cached","seconds","findings":[diagnostics],"errors","warnings"}
// What is not known is null; the fields named expected_ and the stamp are there only where they are set.
nlohmann::json to_json(const Report& report);

// Reads a report of this version, with or without the fields that came later (host, pin_sha256, layout, git_blob,
// proof, bytes_cached); further fields are not looked at. The findings come back as rule, severity, message, help and
// path. Digests are well-formed and no file is listed twice.
diag::Result<Report> report_from_json(const nlohmann::json& json);

// What the report knows of files that can be recognised by their stamps.
std::vector<KnownDigests> known_digests(const Report& report);

}  // namespace sweep::weights
