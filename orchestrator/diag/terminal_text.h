// Text from files on its way to a terminal: what a character looks like there, how wide it is, and which ones must not
// be sent as they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sweep::diag {

// One character of a text.
struct Cell {
  uint32_t begin = 0;  // byte offset in the text
  uint32_t width = 0;  // columns of `shown`; 0 for marks that combine with the character before
  std::string shown;
};

// Line breaks and tabs become a blank. Control characters (C0, DEL, C1), and characters that reorder or hide text (bidi
// overrides and isolates, zero-width blanks), are shown as "<U+202E>"; bytes that are not UTF-8 as U+FFFD.
std::vector<Cell> cells_of(std::string_view text);

// The whole text in this form.
std::string printable(std::string_view text);

// Columns of a character on a terminal: 2 for East Asian wide and fullwidth ones and for emoji, 0 for combining marks.
uint32_t width_of(char32_t character);

}  // namespace sweep::diag
