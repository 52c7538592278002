// Reading through the YAML library: all of YAML, with every problem reported. Private to this module.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/yaml/document.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::yaml {

// The tree of `text`, which is the document's text as prescan() returned it. Nothing if no tree could be built; the
// reason has been reported.
std::optional<Node> read_with_library(const Document& document, std::string text, const Limits& limits,
                                      diag::Diagnostics& out);

}  // namespace sweep::yaml
