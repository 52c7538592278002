#include "kernels/bench/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace flashmla::bench {

std::string format(const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

bool write_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp." + std::to_string(getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  bool good = file != nullptr;
  if (good) {
    good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    good = std::fclose(file) == 0 && good;
    good = good && std::rename(temporary.c_str(), path.c_str()) == 0;
  }
  if (good) return true;
  std::fprintf(stderr, "flashmla-bench: cannot write \"%s\": %s\n", path.c_str(), std::strerror(errno));
  std::remove(temporary.c_str());
  return false;
}

}  // namespace flashmla::bench
