// Names of files inside a model's folder, as pins, indexes and hubs give them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sweep::schema {

// Why a name must not be joined to a folder ("holds \"..\""); nothing if it is a plain relative path.
std::optional<std::string> unsafe_reason(std::string_view path);

}  // namespace sweep::schema
