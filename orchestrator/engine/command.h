// What the adapters' commands have in common. Private to this module.
#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/engine/adapter.h"

namespace sweep::engine {

Framework sglang_framework();
Framework vllm_framework();
Framework trtllm_framework();
Framework atom_framework();

inline constexpr std::string_view kLoopback = "127.0.0.1";

// The recipe's environment, and what every Python engine needs for its log to be read while it runs: unbuffered output.
// The recipe wins.
std::vector<std::pair<std::string, std::string>> python_environment(const plan::Job& job);
std::vector<std::pair<std::string, std::string>> recipe_environment(const plan::Job& job);

// Whether two names of flags are the same to a command-line parser: dashes and underscores are alike.
bool is_same_flag(std::string_view a, std::string_view b);

// Null if the recipe does not set it under any of these names.
const plan::Setting* find_flag(const plan::Job& job, std::initializer_list<std::string_view> names);

// The recipe's flags without those that the adapter sets itself, from values that validation has bound to the recipe.
std::vector<plan::Setting> flags_without(const plan::Job& job, std::initializer_list<std::string_view> set_here);

// `--name value`; for a switch a bare `--name` or nothing, as command-line parsers want it.
void add_flags(std::vector<std::string>& argv, const std::vector<plan::Setting>& flags);

// The recipe's port under one of these names, else `usual`.
diag::Result<int> port_of(const plan::Job& job, std::initializer_list<std::string_view> names, int usual);

// The length to force, 1 <= length <= draft tokens + 1; nothing where acceptance is measured or nothing is drafted.
diag::Result<std::optional<double>> forced_length(const plan::Job& job);

// A flag's value that the engine reads as a JSON object.
diag::Result<nlohmann::json> object_in(const plan::Job& job, const plan::Setting& flag);

// Shortest decimal that reads back as the same number: "5.7", "6".
std::string decimal(double value);

base::Unexpected<diag::Diagnostic> acceptance_unsupported(const plan::Job& job, std::string why, std::string help);

}  // namespace sweep::engine
