// requests.jsonl: a header line, then one line per request in the order in which they finished.
//   {"kind":"sweepctl-requests","schema_version":1,"tool_version":"0.1.0"}
//   {"job":...,"sequence":0,...}
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/sample/sample.h"

namespace sweep::sample {

inline constexpr int kSampleFileVersion = 1;

// Appends complete lines: a run that is killed loses at most the request that was being written.
class SampleWriter {
 public:
  // Replaces what is at `path`.
  static diag::Result<SampleWriter> create(const std::filesystem::path& path);

  diag::Result<diag::Done> write(const Sample& sample);

  // Forces everything to the disk. Call it once the measurement is over.
  diag::Result<diag::Done> sync();

 private:
  SampleWriter(base::FileDescriptor fd, std::filesystem::path path);
  diag::Result<diag::Done> append(std::string line);

  base::FileDescriptor fd_;
  std::filesystem::path path_;
};

struct SampleFile {
  std::vector<Sample> samples;
  std::optional<diag::Diagnostic> cut;  // a warning: the last line is incomplete and was left out
};

// Fails for an unreadable file, an unknown version, a bad line that is not the cut end of the file, and for more tokens
// than figures could be computed of (kMostTokens).
diag::Result<SampleFile> read_samples(const std::filesystem::path& path);
// The same from the file's content; `path` is for messages.
diag::Result<SampleFile> parse_samples(std::string_view content, const std::filesystem::path& path);

inline constexpr int64_t kMostTokens = int64_t{1} << 27;  // in the chunks of all requests; each has an ITL

}  // namespace sweep::sample
