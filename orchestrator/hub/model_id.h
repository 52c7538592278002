// What is asked of a hub: a model and a revision.
#pragma once

#include <string>
#include <string_view>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::hub {

struct ModelRevision {
  std::string model;     // ORG/NAME
  std::string revision;  // a commit, or with --resolve a branch or tag
};

// MODEL@REV. A revision can hold "@", a name cannot.
ModelRevision split_model_revision(std::string_view text);

// Fails (hub/bad-model) unless it is ORG/NAME in the hub's characters (huggingface_hub, validate_repo_id): such a name
// can stand in a URL as it is.
diag::Result<diag::Done> check_model(std::string_view model);

// 40 lower-case hex digits.
bool is_commit(std::string_view revision);

// Fails (hub/not-a-commit) unless is_commit().
diag::Result<diag::Done> check_commit(const ModelRevision& wanted);

// Fails (hub/not-a-commit) for what cannot be the name of a branch or tag either.
diag::Result<diag::Done> check_resolvable(const ModelRevision& wanted);

}  // namespace sweep::hub
