// One run of the program git. Private to this module.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/exec/capture.h"

namespace sweep::git {

// Runs `git -C folder ARGUMENTS` with the C locale and without the variables that would point it at another
// repository. A bad exit status is a value; failures to run git at all are git/not-installed or of exec/.
diag::Result<exec::Captured> run_git(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                                     const std::stop_token& stop, std::string_view input = {});

// git/failed (or git/dubious-ownership) in git's own words.
diag::Diagnostic failure(std::string_view what, const std::filesystem::path& folder, const exec::Captured& answer);

// The text without one final line break.
std::string_view line_of(std::string_view output);

}  // namespace sweep::git
