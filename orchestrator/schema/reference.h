// The reference page of a kind of file, in Markdown: a projection of the field tables and of nothing else.
#pragma once

#include <string>

#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

// One section per object, with a table of its fields and the rules over them. Headings start at level 2.
std::string reference_page(FileKind kind);

}  // namespace sweep::schema
