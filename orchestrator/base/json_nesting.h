// How deep JSON text nests, before a library that recurses gets to see it.
#pragma once

#include <cstddef>
#include <string_view>

namespace sweep::base {

// Deeper than any document that is read here; writing a tree as text recurses once a level.
inline constexpr size_t kDeepestJson = 128;

// The most objects and lists around one place. Text that is not JSON has some number, too.
size_t json_nesting(std::string_view text);

}  // namespace sweep::base
