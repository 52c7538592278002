// Names of the matrix entries that the keys of new changelog entries may match.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/git/repository.h"

namespace sweep::changelog {

struct MatrixQuestion {
  std::vector<std::string> files;                // from the top of the working tree; a folder stands for what it holds
  std::optional<git::Commit> at = std::nullopt;  // nothing: the working tree
};

// Keys of all matrix files among `files`, in order; files of other kinds are passed over. Files that cannot be read or
// parsed are reported. Fails with what git cannot answer.
diag::Result<std::vector<std::string>> matrix_names(const git::Repository& repository, const MatrixQuestion& question,
                                                    diag::Diagnostics& out);

}  // namespace sweep::changelog
