#include "orchestrator/report/table.h"

#include <algorithm>

#include "orchestrator/diag/terminal_text.h"

namespace sweep::report {

namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

// Columns on a terminal.
size_t width_of(std::string_view text) {
  size_t width = 0;
  for (const diag::Cell& cell : diag::cells_of(text)) width += cell.width;
  return width;
}

std::string markdown(const Table& table) {
  std::string out = "|";
  std::string rule = "|";
  for (const Column& column : table.columns) {
    out += " " + column.title + " |";
    rule += column.is_number ? "---:|" : "---|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    out += "|";
    for (const std::string& cell : row) out += " " + escape_markdown(cell) + " |";
    out += "\n";
  }
  return out;
}

std::string text(const Table& table) {
  std::vector<size_t> widths;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    size_t width = width_of(table.columns[i].title);
    for (const auto& row : table.rows) width = std::max(width, width_of(one_line(row[i])));
    widths.push_back(width);
  }
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const std::string cell = cell_of(i);
      const std::string padding(widths[i] - std::min(widths[i], width_of(cell)), ' ');
      line += std::string("  ") + (table.columns[i].is_number ? padding + cell : cell + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line([&](size_t i) { return table.columns[i].title; });
  for (const auto& row : table.rows) add_line([&](size_t i) { return one_line(row[i]); });
  return out;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(),
      [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7F;
      },
      ' ');
  return line;
}

std::string render(const Table& table, TableStyle style) {
  if (table.rows.empty()) return {};
  return style == TableStyle::kMarkdown ? markdown(table) : text(table);
}

std::string escape_markdown(std::string_view text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (std::string_view("|*_`[]\\~#").find(c) != std::string_view::npos)
      (out += '\\') += c;
    else
      out += c;
  }
  return out;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t cut = most;
  while (cut > 0 && is_continuation(text[cut])) --cut;
  return std::string(text.substr(0, cut)) + "...";
}

}  // namespace sweep::report
