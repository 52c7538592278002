// Standard output and standard error: what may be written where, and whether colour and progress fit there.
#pragma once

#include <cstdint>
#include <string_view>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/diag/source_map.h"

namespace sweep::cli {

enum class Format : uint8_t { kHuman, kJson, kGithub, kSarif, kMarkdown };

// Results go to stdout, diagnostics and progress to stderr. Decided once, from the streams and the environment
// (NO_COLOR, TERM, GITHUB_ACTIONS).
class Console {
 public:
  Console();

  Format format() const { return format_; }
  void set_format(Format format) { format_ = format; }

  bool stderr_is_terminal() const { return stderr_is_terminal_; }
  bool colour_on_stdout() const { return colour_on_stdout_; }
  bool colour_on_stderr() const { return colour_on_stderr_; }
  int stderr_width() const;  // in columns; 80 if unknown

  void out(std::string_view text) const;
  void err(std::string_view text) const;

  // Human and GitHub formats: to stderr, with a final count. JSON and SARIF formats: the document to stdout.
  void report(diag::Diagnostics diagnostics, const diag::SourceMap& sources) const;
  void report(const diag::Diagnostic& diagnostic) const;

 private:
  Format format_ = Format::kHuman;
  bool stderr_is_terminal_ = false;
  bool colour_on_stdout_ = false;
  bool colour_on_stderr_ = false;
};

}  // namespace sweep::cli
