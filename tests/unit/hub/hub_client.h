// A client of a test hub whose waits pass at once.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/hub/connection.h"

namespace sweep::hub {

struct HubClient {
  std::vector<std::chrono::milliseconds> waits = {};
  std::vector<Retry> retries = {};
  bool interrupt_waits = false;

  Connection connect(const std::string& endpoint, const std::string& token = {},
                     std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    Settings settings{.endpoint = endpoint, .timeout = timeout};
    if (!token.empty()) settings.token = token;
    return Connection({.settings = std::move(settings),
                       .policy = {.seed = 1},
                       .waiting = {.wait =
                                       [this](std::chrono::milliseconds time, const std::stop_token&) {
                                         waits.push_back(time);
                                         return !interrupt_waits;
                                       },
                                   .unix_ns = [] { return int64_t{1'700'000'000} * 1'000'000'000; }},
                       .on_retry = [this](const Retry& retry) { retries.push_back(retry); }});
  }
};

}  // namespace sweep::hub
