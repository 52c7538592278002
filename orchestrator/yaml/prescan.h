// The first look at the bytes of a file, before any parser sees them.
#pragma once

#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/yaml/document.h"

namespace sweep::yaml {

// Reports a byte-order mark, NUL and other control characters, invalid UTF-8, CR, tabs and line separators that only
// some readers know. Returns the text for the parser, of the same length: tabs and CR are replaced by blanks so that
// the rest of the file can still be checked. Empty if the bytes are no text that a parser should see.
std::optional<std::string> prescan(const Document& document, diag::Diagnostics& out);

}  // namespace sweep::yaml
