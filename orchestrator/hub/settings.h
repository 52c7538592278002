// Where the hub is and who asks, from the variables that huggingface_hub reads (constants.py, utils/_auth.py).
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::hub {

// The value of a variable of the environment, if it is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct Settings {
  std::string endpoint = "https://huggingface.co";          // without "/" at the end
  std::optional<std::string> token = {};                    // never to be shown
  std::filesystem::path ca_file = {};                       // an authority beside the system's
  std::chrono::milliseconds timeout{60'000};                // of one request
  std::optional<std::chrono::milliseconds> head_timeout{};  // of one that asks for headers only
};

// HF_ENDPOINT; the token from HF_TOKEN, else from the file HF_TOKEN_PATH, else HF_HOME/token, else
// XDG_CACHE_HOME/huggingface/token, else ~/.cache/huggingface/token; HF_HUB_ETAG_TIMEOUT. A token that may not be sent
// to the endpoint is left out, with a warning. Nothing after an error: hub/bad-setting, or hub/offline where
// HF_HUB_OFFLINE is 1, on, yes or true.
std::optional<Settings> settings_from(const Environment& environment, diag::Diagnostics& diagnostics);

}  // namespace sweep::hub
