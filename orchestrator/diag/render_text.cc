#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/diag/render.h"

namespace sweep::diag {

namespace {

struct Palette {
  std::string_view bold, error, warning, note, help, off;
};
constexpr Palette kPlain{};
constexpr Palette kColour{"\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m", "\x1b[1;32m", "\x1b[0m"};

constexpr size_t kWidth = 100;  // longer source lines are shown as a window around the mark

// Control characters from files must not reach a terminal.
std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\t')
      result += ' ';
    else if (byte < 0x20 || byte == 0x7f)
      result += '?';
    else
      result += c;
  }
  return result;
}

bool is_utf8_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_utf8_continuation(c); }));
}

std::string place_text(const SourceSpan& where) {
  if (where.line == 0) return where.file;
  if (where.column == 0) return fmt::format("{}:{}", where.file, where.line);
  return fmt::format("{}:{}:{}", where.file, where.line, where.column);
}

std::string_view severity_colour(const Palette& palette, Severity severity) {
  switch (severity) {
    case Severity::kError:
      return palette.error;
    case Severity::kWarning:
      return palette.warning;
    case Severity::kNote:
      return palette.note;
  }
  return palette.off;
}

// The source line and a caret under the mark; empty if the text is not known.
std::string excerpt(const SourceSpan& where, const SourceMap& sources, const Palette& palette) {
  const auto found = sources.line(where.file, where.line);
  if (!found || where.column == 0 || where.column > found->size() + 1) return {};
  std::string_view line = *found;
  size_t start = where.column - 1;
  size_t end = where.end_column > where.column ? where.end_column - 1 : where.column;
  end = std::max(std::min<size_t>(end, line.size()), start);
  std::string_view prefix_mark;
  if (line.size() > kWidth && start > kWidth / 2) {
    size_t cut = start - kWidth / 2;
    while (cut < start && is_utf8_continuation(line[cut])) ++cut;
    line.remove_prefix(cut);
    start -= cut;
    end -= cut;
    prefix_mark = "...";
  }
  std::string_view suffix_mark;
  if (line.size() > kWidth) {
    size_t cut = kWidth;
    while (cut > 0 && is_utf8_continuation(line[cut])) --cut;
    line = line.substr(0, cut);
    end = std::min(end, line.size());
    suffix_mark = "...";
  }
  const std::string number = std::to_string(where.line);
  const size_t indent = prefix_mark.size() + display_width(line.substr(0, start));
  const size_t marked = std::max<size_t>(1, display_width(line.substr(start, end - start)));
  return fmt::format(" {} | {}{}{}\n {:>{}} | {:>{}}{}^{:~>{}}{}\n", number, prefix_mark, printable(line), suffix_mark,
                     "", number.size(), "", indent, palette.help, "", marked - 1, palette.off);
}

std::string render_one(const Diagnostic& d, const SourceMap& sources, const Palette& palette) {
  std::string out;
  if (d.where)
    out += fmt::format("{}{}:{} ", palette.bold, printable(place_text(*d.where)), palette.off);
  else
    out += "sweepctl: ";
  out += fmt::format("{}{}:{} {} [{}]\n", severity_colour(palette, d.severity), severity_name(d.severity), palette.off,
                     printable(d.message), rule_info(d.rule).slug);
  const size_t gutter = d.where && d.where->line != 0 ? std::to_string(d.where->line).size() : 1;
  if (d.where) out += excerpt(*d.where, sources, palette);
  if (!d.path.empty()) out += fmt::format(" {:>{}} = at: {}\n", "", gutter, printable(d.path));
  if (!d.help.empty())
    out += fmt::format(" {:>{}} = {}help:{} {}\n", "", gutter, palette.help, palette.off, printable(d.help));
  for (const Note& note : d.notes) {
    if (note.where) {
      out += fmt::format("{}: {}note:{} {}\n", printable(place_text(*note.where)), palette.note, palette.off,
                         printable(note.message));
      out += excerpt(*note.where, sources, palette);
    } else {
      out += fmt::format(" {:>{}} = {}note:{} {}\n", "", gutter, palette.note, palette.off, printable(note.message));
    }
  }
  return out;
}

}  // namespace

std::string render_text(const Diagnostic& diagnostic, const SourceMap& sources, const TextOptions& options) {
  return render_one(diagnostic, sources, options.colour ? kColour : kPlain);
}

std::string render_text(const Diagnostics& diagnostics, const SourceMap& sources, const TextOptions& options) {
  const Palette& palette = options.colour ? kColour : kPlain;
  std::string out;
  size_t shown = 0;
  for (const Diagnostic& d : diagnostics.items()) {
    if (shown == options.most) {
      out += fmt::format("{} of {} shown\n", shown, diagnostics.items().size());
      break;
    }
    out += render_one(d, sources, palette);
    ++shown;
  }
  return out;
}

std::string count_text(const Diagnostics& diagnostics) {
  const auto counted = [](size_t n, std::string_view noun) {
    return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
  };
  const size_t errors = diagnostics.error_count();
  const size_t warnings = diagnostics.warning_count();
  if (errors != 0 && warnings != 0) return counted(errors, "error") + ", " + counted(warnings, "warning");
  if (errors != 0) return counted(errors, "error");
  if (warnings != 0) return counted(warnings, "warning");
  return {};
}

}  // namespace sweep::diag
