// A result for people: on the terminal and as Markdown. Formats what result.json holds; computes nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace sweep::report {

// Fits 100 columns. `colour` adds ANSI colours.
std::string summary_text(const nlohmann::json& result, bool colour);

// Fits a workflow's step summary.
std::string summary_markdown(const nlohmann::json& result);

// The same table of latencies and counts, from raw requests alone: `figures` is request_figures() with "problems",
// {rule: number of measured requests with it}.
std::string requests_text(const nlohmann::json& figures, bool colour);
std::string requests_markdown(const nlohmann::json& figures);

}  // namespace sweep::report
