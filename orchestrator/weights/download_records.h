// What a hub client wrote down about its downloads. A record says which object was asked for and when, not what is on
// disk: it explains findings and never proves anything. Formats: huggingface_hub, _local_folder.py and
// file_download.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sweep::weights {

struct DownloadRecord {
  std::string path;    // of the file it is about, relative to the model's folder
  std::string commit;  // 40 hex digits
  std::string etag;    // SHA-256 of an LFS file, git blob id of another
  double written = 0;  // Unix time in seconds; 0: not known
};

struct MalformedRecord {
  std::string path;  // of the record
  std::string reason;
};

struct DownloadRecords {
  std::vector<DownloadRecord> records;     // by path
  std::vector<MalformedRecord> malformed;  // by path
  std::vector<std::string> incomplete;     // files with the begin of a download, by path
};

// Three lines: commit, etag, Unix time of writing. Nothing if `text` is something else, and then `reason` says why.
bool parse_download_record(std::string_view text, DownloadRecord& record, std::string& reason);

// All *.metadata and *.incomplete below `folder`. Links are not followed.
DownloadRecords read_download_records(const std::filesystem::path& folder);

// The names of *.incomplete in `folder`, which are the etag of what was fetched and this suffix.
std::vector<std::string> incomplete_blobs(const std::filesystem::path& folder);

}  // namespace sweep::weights
