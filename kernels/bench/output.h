// Text and files.
#pragma once

#include <string>

namespace flashmla::bench {

// As printf, at most 511 characters.
__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);

// Whole or not at all; false, with the reason on stderr, if it failed.
bool write_file(const std::string& path, const std::string& text);

}  // namespace flashmla::bench
