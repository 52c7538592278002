#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/diag/render.h"
#include "orchestrator/diag/terminal_text.h"

namespace sweep::diag {

namespace {

// GitHub shows the first ten errors and the first ten warnings of a step beside the code, and all of them in the log:
// the worst come first.

// Percent-encodes what would end a property or the command (GitHub: "Workflow commands", toolkit's command.ts).
std::string escape(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '%':
        out += "%25";
        break;
      case '\r':
        out += "%0D";
        break;
      case '\n':
        out += "%0A";
        break;
      case ':':
        out += property ? "%3A" : ":";
        break;
      case ',':
        out += property ? "%2C" : ",";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string_view command(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "notice";
  }
  return "error";
}

}  // namespace

std::string render_github(const Diagnostics& diagnostics) {
  std::vector<const Diagnostic*> ordered;
  for (const Diagnostic& d : diagnostics.items()) ordered.push_back(&d);
  std::stable_sort(ordered.begin(), ordered.end(), [](auto* a, auto* b) { return a->severity < b->severity; });
  std::string out;
  for (const Diagnostic* d : ordered) {
    std::string properties;
    if (d->where) {
      properties += fmt::format("file={},", escape(d->where->file, true));
      if (d->where->line != 0) properties += fmt::format("line={},", d->where->line);
      if (d->where->column != 0) properties += fmt::format("col={},", d->where->column);
      if (d->where->end_column > d->where->column) properties += fmt::format("endColumn={},", d->where->end_column);
    }
    properties += fmt::format("title={}", escape(rule_info(d->rule).slug, true));
    std::string text = printable(d->message);
    if (!d->path.empty()) text += "\nat: " + printable(d->path);
    if (!d->help.empty()) text += "\nhelp: " + printable(d->help);
    for (const Note& note : d->notes) {
      text += "\nnote: " + printable(note.message);
      if (note.where) text += fmt::format(" ({}:{})", note.where->file, note.where->line);
    }
    out += fmt::format("::{} {}::{}\n", command(d->severity), properties, escape(text, false));
  }
  return out;
}

}  // namespace sweep::diag
