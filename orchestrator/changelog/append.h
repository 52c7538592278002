// Changes of a changelog that keep the rules: each gives the whole new text, or nothing and the reasons.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/changelog/compare.h"
#include "orchestrator/changelog/compose.h"

namespace sweep::changelog {

// One entry behind a valid changelog (or as the first of a new file). What comes out passes compare() against what
// went in.
std::optional<std::string> append_entry(const std::optional<Revision>& current, const NewEntry& entry,
                                        const Policy& policy, diag::Diagnostics& out);

struct Canonical {
  std::string text;
  size_t rewritten = 0;  // links
};

// The placeholders of entries that the base does not have become the link of the policy's pull request.
std::optional<Canonical> canonicalize(const std::optional<Revision>& base, const Revision& head, const Policy& policy,
                                      diag::Diagnostics& out);

// The three sides of a changelog in conflict. `main` is kept byte for byte, but for links that the branch corrected
// and main did not.
struct Conflict {
  std::optional<Revision> base;
  Revision main;
  Revision branch;
};

struct Resolution {
  std::string text;
  size_t appended = 0;   // entries of the branch, behind main's
  size_t dropped = 0;    // entries of the branch that main has already
  size_t corrected = 0;  // links
};

std::optional<Resolution> resolve_conflict(const Conflict& conflict, const Policy& policy, diag::Diagnostics& out);

}  // namespace sweep::changelog
