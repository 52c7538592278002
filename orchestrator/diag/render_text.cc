#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "orchestrator/diag/render.h"
#include "orchestrator/diag/terminal_text.h"

namespace sweep::diag {

namespace {

struct Palette {
  std::string_view bold, error, warning, note, help, off;
};
constexpr Palette kPlain{};
constexpr Palette kColour{"\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m", "\x1b[1;32m", "\x1b[0m"};

constexpr uint32_t kWidth = 100;           // columns; longer source lines are shown as a window around the mark
constexpr size_t kMostBytes = 8 * kWidth;  // of a line on each side of the mark: more cannot be in the window

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

bool is_utf8_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// The part of a line around bytes [start, end) that is looked at, cut between characters.
struct Part {
  std::string_view text;
  size_t start = 0;
  size_t end = 0;
  bool more_before = false;
  bool more_after = false;
};

Part part_around(std::string_view line, size_t start, size_t end) {
  Part part{line, start, end};
  while (part.start > 0 && part.start < line.size() && is_utf8_continuation(line[part.start])) --part.start;
  if (part.start > kMostBytes) {
    size_t cut = part.start - kMostBytes;
    while (cut < part.start && is_utf8_continuation(line[cut])) ++cut;
    part = {line.substr(cut), part.start - cut, part.end - cut, true, false};
  }
  if (part.text.size() > part.start + kMostBytes) {
    size_t cut = part.start + kMostBytes;
    while (cut > part.start && is_utf8_continuation(part.text[cut])) --cut;
    part.text = part.text.substr(0, cut);
    part.more_after = true;
  }
  part.end = std::max(std::min(part.end, part.text.size()), part.start);
  return part;
}

uint32_t width(std::span<const Cell> cells) {
  uint32_t sum = 0;
  for (const Cell& cell : cells) sum += cell.width;
  return sum;
}

// The source line and a caret under the mark; empty if the text is not known.
std::string excerpt(const SourceSpan& where, const SourceMap& sources, const Palette& palette) {
  const auto line = sources.line(where.file, where.line);
  if (!line || where.column == 0 || where.column > line->size() + 1) return {};
  const size_t start = where.column - 1;
  Part part = part_around(*line, start, where.end_column > where.column ? where.end_column - 1 : start + 1);
  const std::vector<Cell> all = cells_of(part.text);
  const auto at_byte = [&](size_t byte) {
    return static_cast<size_t>(
        std::partition_point(all.begin(), all.end(), [&](const Cell& c) { return c.begin < byte; }) - all.begin());
  };
  const size_t marked = at_byte(part.start);
  std::span<const Cell> cells = all;
  size_t first = 0;
  if (part.more_before || part.more_after || width(cells) > kWidth) {
    while (first < marked && width(cells.subspan(first, marked - first)) > kWidth / 2) ++first;
    while (first != 0 && first < marked && cells[first].width == 0)
      ++first;  // not without the character it combines with
    size_t last = marked;
    for (uint32_t columns = width(cells.subspan(first, marked - first));
         last < cells.size() && columns + cells[last].width <= kWidth; ++last)
      columns += cells[last].width;
    part.more_before = part.more_before || first != 0;
    part.more_after = part.more_after || last != cells.size();
    cells = cells.subspan(first, last - first);
  }
  const size_t begin = marked - first;
  const size_t end = std::clamp(at_byte(part.end) - std::min(at_byte(part.end), first), begin, cells.size());
  std::string text = part.more_before ? "..." : "";
  for (const Cell& cell : cells) text += cell.shown;
  if (part.more_after) text += "...";
  uint32_t indent = width(cells.subspan(0, begin)) + (part.more_before ? 3 : 0);
  const uint32_t columns = width(cells.subspan(begin, end - begin));
  if (columns == 0 && begin < cells.size() && indent > 0) --indent;  // a combining mark stands on the one before
  const std::string number = std::to_string(where.line);
  return fmt::format(" {} | {}\n {:>{}} | {:>{}}{}^{:~>{}}{}\n", number, text, "", number.size(), "", indent,
                     palette.help, "", columns == 0 ? 0 : columns - 1, palette.off);
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
