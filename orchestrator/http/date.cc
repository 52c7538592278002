#include "orchestrator/http/date.h"

#include "orchestrator/http/libcurl.h"

namespace sweep::http {

std::optional<int64_t> parse_date(const std::string& text) {
  if (!load_libcurl()) return std::nullopt;
  const time_t seconds = libcurl().getdate(text.c_str(), nullptr);
  if (seconds == -1) return std::nullopt;
  return seconds;
}

}  // namespace sweep::http
