// JSON Schema (draft-07) of a kind of file, for editors: a projection of the field tables and of nothing else. It
// refuses nothing that `validate` accepts; what spans files or needs arithmetic is left to `validate`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

// Stable: the same tables give the same bytes. Needs no network: no $id, and references stay inside.
nlohmann::ordered_json json_schema(FileKind kind);
std::string json_schema_text(FileKind kind);

// A value as a table writes it ("1", "false", "none"), typed by its shape.
nlohmann::ordered_json json_value(const Shape& shape, std::string_view written);

}  // namespace sweep::schema
