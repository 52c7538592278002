#include "orchestrator/cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/diag/render.h"

namespace sweep::cli {

namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool colour_fits(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) != 0 && !is_set("NO_COLOR") && term != nullptr && std::string_view(term) != "dumb";
}

void write_to(FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace

Console::Console()
    : stderr_is_terminal_(::isatty(STDERR_FILENO) != 0),
      colour_on_stdout_(colour_fits(STDOUT_FILENO)),
      colour_on_stderr_(colour_fits(STDERR_FILENO)) {
  const char* actions = std::getenv("GITHUB_ACTIONS");
  if (actions != nullptr && std::string_view(actions) == "true") format_ = Format::kGithub;
}

int Console::stderr_width() const {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void Console::out(std::string_view text) const {
  write_to(stdout, text);
}

void Console::err(std::string_view text) const {
  write_to(stderr, text);
}

void Console::report(diag::Diagnostics diagnostics, const diag::SourceMap& sources) const {
  diagnostics.normalise();
  switch (format_) {
    case Format::kJson:
      out(diag::to_json(diagnostics).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
      return;
    case Format::kSarif:
      out(diag::render_sarif(diagnostics, sources));
      return;
    case Format::kGithub:
      err(diag::render_github(diagnostics));
      break;
    case Format::kMarkdown:
    case Format::kHuman:
      err(diag::render_text(diagnostics, sources, {.colour = colour_on_stderr_}));
      break;
  }
  if (const std::string count = diag::count_text(diagnostics); !count.empty()) err(count + "\n");
}

void Console::report(const diag::Diagnostic& diagnostic) const {
  diag::Diagnostics diagnostics;
  diagnostics.add(diagnostic);
  switch (format_) {
    case Format::kGithub:
      err(diag::render_github(diagnostics));
      break;
    case Format::kJson:
    case Format::kSarif:
    case Format::kMarkdown:
    case Format::kHuman:
      err(diag::render_text(diagnostic, diag::SourceMap(), {.colour = colour_on_stderr_}));
      break;
  }
}

}  // namespace sweep::cli
