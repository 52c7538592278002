// Compares two located trees, positions included.
#pragma once

#include <string>

#include "orchestrator/yaml/node.h"

namespace sweep::test {

// The path of the first difference, with what differs; empty if the trees are equal.
std::string first_difference(const yaml::Node& a, const yaml::Node& b, const std::string& path = "root");

}  // namespace sweep::test
