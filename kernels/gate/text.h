// Messages with numbers in them.
#pragma once

#include <cstdio>
#include <string>

namespace flashmla::gate {

template <typename... Arguments>
std::string text(const char* format, Arguments... arguments) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, format, arguments...);
  return buffer;
}

}  // namespace flashmla::gate
