// This host's weights against those of the other hosts that take part in a run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/pipeline/stages.h"

namespace sweep::pipeline {

// Compares the stage's document, this host's report, with the reports that the run was given, and records the outcome
// in the document and in weights.json. Fails if the hosts do not agree, or did not before and no report is given now;
// what differs goes to the line's diagnostics. Without reports, nothing is done.
diag::Result<diag::Done> agree_with_hosts(const Line& line, nlohmann::json& document);

// An agreement with other hosts that the document of the stage holds does not hold for other content: the new document
// says so, and the run goes on with new reports only.
void void_agreement(const nlohmann::json& before, nlohmann::json& document);

}  // namespace sweep::pipeline
