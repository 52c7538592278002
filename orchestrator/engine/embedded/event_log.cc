#include "orchestrator/engine/embedded/event_log.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sweep::engine::embedded {

void EventLog::write(const nlohmann::ordered_json& event) {
  const std::string line = event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const std::lock_guard lock(mutex_);
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // nobody reads the log any more; serving goes on
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace sweep::engine::embedded
