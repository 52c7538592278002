// Where a measurement was made and from which state of the checkout.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>

namespace sweep::pipeline {

nlohmann::json describe_host();

// {"commit": 40 hex digits, "clean": bool}; null where the folder is no git checkout or git is not there.
nlohmann::json describe_checkout(const std::filesystem::path& root, const std::stop_token& stop);

}  // namespace sweep::pipeline
