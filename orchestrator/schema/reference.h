// The reference page of a kind of file, in Markdown: a projection of the field tables and of nothing else.
#pragma once

#include <string>

#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

// One section per object, with a table of its fields and the rules over them. `level`: of the headings.
std::string reference_page(FileKind kind, size_t level = 2);

}  // namespace sweep::schema
