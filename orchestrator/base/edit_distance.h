// "Did you mean": the nearest of a set of words.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sweep::base {

// Insertions, deletions, substitutions and swaps of neighbours each cost 1.
size_t edit_distance(std::string_view a, std::string_view b);

// The closest candidate if it is close enough to be a likely slip of the pen; ties go to the earlier one.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace sweep::base
