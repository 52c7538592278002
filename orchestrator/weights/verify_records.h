// Download records against the pin.
#pragma once

#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/report.h"
#include "orchestrator/weights/staged_files.h"

namespace sweep::weights {

// Warns of records that are of other revisions or objects than pinned, cannot be understood, or were left by a broken
// download. They explain what the content shows; nothing becomes right or wrong by them.
void warn_of_records(const Pin& pin, const Staging& staging, Report& report);

// All that can be said without reading any content: which objects were asked for. Adds every pinned file to the report;
// those with the pinned identifier are "identifier-only". Another identifier is an error here.
void compare_records(const Pin& pin, const Staging& staging, Report& report);

}  // namespace sweep::weights
