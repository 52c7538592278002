// The bytes of two revisions whose entries are known to agree. Private to this module.
#pragma once

#include <string_view>

#include "orchestrator/changelog/compare.h"

namespace sweep::changelog {

// The head must begin with the base, byte for byte.
bool check_prefix(const yaml::Document& base, const yaml::Document& head, diag::Diagnostics& out);

// Only the lines of corrected links may differ.
void check_corrections(const Comparison& comparison, diag::Diagnostics& out);

// What stands around the entries from `first_added` on. The base's bytes are known to be intact; `base` is null if
// there is none.
void check_additions(const yaml::Document* base, const schema::ChangelogFile& head, size_t first_added,
                     diag::Diagnostics& out);

}  // namespace sweep::changelog
