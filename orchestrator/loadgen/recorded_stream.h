// A stream that was recorded, through the same parser and the same checks as a live one.
//   {"request": {"isl": 8192, "osl": 256, "http_status": 200}}     what was asked; each field may be absent
//   {"t_ms": 412.0, "data": "data: {...}\n\n"}                      one read: text, or "hex" for any bytes
//   {"t_ms": 436.6, "eof": true}                                    the end
// t_ms counts from the sending of the request and does not fall. Anything else is taken for the raw bytes of a stream,
// which have no times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/loadgen/check_lengths.h"
#include "orchestrator/sample/sample.h"

namespace sweep::loadgen {

struct RecordedStream {
  AskedLengths asked;
  bool has_times = false;
  int64_t reads = 0;
  int64_t token_events = 0;
  sample::Sample sample;                   // times count from its sending at 0
  std::vector<diag::Diagnostic> problems;  // of the request, warnings included
};

inline constexpr uint64_t kMostCaptureBytes = uint64_t{256} << 20;

// `asked` fills in what the recording does not say. Fails (load/malformed-capture, at its line) for what is no
// recording.
diag::Result<RecordedStream> replay(std::string_view text, const std::string& file, const AskedLengths& asked);

}  // namespace sweep::loadgen
