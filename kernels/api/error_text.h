// The text behind flashmla_error_message(): a fixed buffer, so that a failing call allocates nothing either.
#pragma once

#include <cstdarg>
#include <cstdio>

#include "flashmla/flashmla.h"

namespace flashmla {

class ErrorText {
 public:
  void clear() { text_[0] = '\0'; }
  const char* text() const { return text_; }

#if defined(__GNUC__)
  __attribute__((format(printf, 3, 4)))
#endif
  flashmla_status
  set(flashmla_status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text_, sizeof text_, format, arguments);
    va_end(arguments);
    return status;
  }

 private:
  char text_[320] = "";
};

}  // namespace flashmla
