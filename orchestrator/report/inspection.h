// What `inspect` says about a recorded capture: the values computed from it, and what makes the point unusable.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::report {

struct Inspection {
  std::string kind;                  // "power", "result"
  nlohmann::json values;             // by name; null if the capture could not be read
  bool valid = false;                // whether the capture leaves the point usable
  std::vector<std::string> reasons;  // why not, one sentence each
  diag::Diagnostics findings;
};

// {"schema_version":1,"kind":...,the values by name,"valid":...,"reasons":[...],"diagnostics":[...],"errors":N,
//  "warnings":N}
nlohmann::json to_json(const Inspection& inspection);

}  // namespace sweep::report
