// What often stands in place of weights: an error page, a pointer, nothing at all.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sweep::weights {

struct ForeignContent {
  std::string what;  // "an HTML page titled \"504 Gateway Time-out\""
  std::string help;
};

// Looks at the begin, middle and end of a regular file that is not what it should be. Nothing if its content is of no
// kind that is known here, or cannot be read. `name` tells what would be in order: a page in *.html is.
std::optional<ForeignContent> foreign_content(const std::filesystem::path& file, std::string_view name);

}  // namespace sweep::weights
