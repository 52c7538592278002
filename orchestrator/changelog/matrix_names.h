// Names of the matrix entries that the keys of new changelog entries may match.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/git/repository.h"

namespace sweep::changelog {

// Keys of all matrix files among `paths`, in order; a folder stands for the YAML files below it, and files of other
// kinds are passed over. What cannot be read or parsed is reported.
std::vector<std::string> matrix_names(const std::filesystem::path& root, const std::vector<std::string>& paths,
                                      diag::Diagnostics& out);

// The same at a commit, with paths from the top of the working tree. Fails with what git cannot answer.
diag::Result<std::vector<std::string>> matrix_names(const git::Repository& repository, const git::Commit& commit,
                                                    const std::vector<std::string>& paths, diag::Diagnostics& out);

}  // namespace sweep::changelog
