// A quick reader for the YAML that people mostly write: block and flow collections with scalars of one line. The
// YAML library spends most of the time of `plan` on such text. Private to this module.
#pragma once

#include <optional>
#include <string_view>

#include "orchestrator/yaml/node.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::yaml {

// The tree of a text that prescan() let through. Nothing as soon as the text holds anything beyond the subset
// (anchors, tags, merge keys, block scalars, text over several lines, ...), has any problem, or passes a limit: the
// full parser then decides and reports. A tree that is returned is the one that the full parser builds, positions
// included; tests/fuzz/yaml_readers.cc holds both against each other.
std::optional<Node> read_plain(std::string_view text, const Limits& limits);

}  // namespace sweep::yaml
