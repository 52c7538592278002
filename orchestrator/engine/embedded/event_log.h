// The server's log: one JSON object a line on standard error.
#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>

namespace sweep::engine::embedded {

// Thread-safe; a line is written whole.
class EventLog {
 public:
  explicit EventLog(int descriptor = 2) : descriptor_(descriptor) {}
  // `event` should begin with the member "event".
  void write(const nlohmann::ordered_json& event);

 private:
  std::mutex mutex_;
  int descriptor_;
};

}  // namespace sweep::engine::embedded
