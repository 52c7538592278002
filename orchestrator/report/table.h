// Tables for people: Markdown for step summaries, aligned columns for the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sweep::report {

enum class TableStyle : uint8_t { kMarkdown, kText };

struct Column {
  std::string title;
  bool is_number = false;  // to the right
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // as many cells as columns, plain text
};

// Text from files can neither become markup nor break a row. Ends with a line break; empty without rows.
std::string render(const Table& table, TableStyle style);

// Control characters become blanks.
std::string one_line(std::string_view text);

// Text that is no markup, on one line.
std::string escape_markdown(std::string_view text);

// At most `most` bytes, cut between characters, with "..." where something is missing.
std::string shortened(std::string_view text, size_t most);

}  // namespace sweep::report
