// requests.jsonl: a header line, then one line per request in the order in which they finished.
//   {"kind":"sweepctl-requests","schema_version":1,"tool_version":"0.1.0"}
//   {"job":...,"sequence":0,...}
#pragma once

#include <filesystem>
#include <optional>
#include <string>
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

// Fails for an unreadable file, an unknown version, and a bad line that is not the cut end of the file.
diag::Result<SampleFile> read_samples(const std::filesystem::path& path);

}  // namespace sweep::sample
