// Text -> located tree, strictly: everything that readers of YAML disagree about is an error that points at the spot.
// Never throws; time and memory are bounded by the limits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/yaml/document.h"

namespace sweep::yaml {

struct Limits {
  uint64_t bytes = 8u << 20;       // the largest file known, a changelog of 772 entries, has 0.4 MB
  uint32_t nodes = 400'000;        // about twenty times that file
  uint32_t alias_nodes = 100'000;  // copies made by aliases and merge keys
  uint32_t depth = 64;             // recipes reach 8; the parser recurses once a level
};

// The document of a YAML file. Diagnostics for all problems go to `out`; null if no tree could be built. A tree
// comes with problems such as duplicate keys already reported, and can be decoded to find further ones.
std::shared_ptr<Document> parse(std::string name, std::string text, diag::Diagnostics& out, const Limits& limits = {});

// The same for a JSON file (RFC 8259); keys must be unique.
std::shared_ptr<Document> parse_json(std::string name, std::string text, diag::Diagnostics& out,
                                     const Limits& limits = {});

}  // namespace sweep::yaml
