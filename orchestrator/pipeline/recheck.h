// A finished bundle computed again from its raw records: does the result follow from them?
#pragma once

#include <filesystem>

#include "orchestrator/report/inspection.h"

namespace sweep::pipeline {

// `file` is a result.json. What lies beside it decides what can be computed again: requests.jsonl gives latencies,
// throughput and counts, with measurement.json also the verdict, power.csv the energy. Differences are findings, one
// for each part of the result, with the first field as their path. `values` holds what was computed, and `differences`
// [{field, stated, recomputed}]; it is null if the file is no result.
report::Inspection recheck(const std::filesystem::path& file);

}  // namespace sweep::pipeline
