// Validates JSON against JSON Schema (draft-07), for exactly the keywords that we write: any other one is reported, so
// that a schema cannot rely on what nobody checked.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/yaml/node.h"

namespace sweep::test {

using Json = nlohmann::ordered_json;

// Violations as "path: what"; empty if the value is accepted.
std::vector<std::string> violations(const Json& schema, const Json& value);

// What is wrong with the schema itself: unknown keywords, references that lead nowhere, unused definitions, required
// fields that are not described, defaults that the field would refuse.
std::vector<std::string> schema_problems(const Json& schema);

// What a reader of YAML 1.2 (core schema) makes of a tree.
Json json_of(const yaml::Node& node);

}  // namespace sweep::test
