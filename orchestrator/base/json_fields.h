// Fields of JSON that a server sent: what is absent, null or of another kind is nothing, never an exception.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace sweep::base {

// A larger count is no count; sums of smaller ones cannot overflow.
inline constexpr uint64_t kMostCounted = uint64_t{1} << 40;

// Null if `object` is none, or does not have the field, or has null in it.
const nlohmann::json* member(const nlohmann::json& object, const char* name);

// Whether it is a whole number from 0 to kMostCounted.
bool is_count(const nlohmann::json& value);

std::optional<int64_t> count_in(const nlohmann::json& object, const char* name);

}  // namespace sweep::base
