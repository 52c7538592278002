// What differs between two values of configuration, field by field. Private to this module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/plan/row.h"

namespace sweep::plan {

struct Step {
  std::string key;     // of a mapping
  int64_t index = -1;  // of a list, from 0
};

struct Difference {
  std::vector<Step> steps;
  std::string before;  // compact JSON; empty: not there
  std::string after;

  std::string path() const;  // "scenarios.fixed-seq-len[0].isl"
  std::string text() const;  // "isl: 1024 -> 8192"
};

// Mappings are compared by key, whatever their order; lists of mappings item by item, other lists as a whole.
std::vector<Difference> differences(const Row& before, const Row& after);

// The first few, joined by "; ", with the number of those left out.
std::string difference_text(const std::vector<Difference>& all);

// The value that the steps lead to below a node; where they leave the tree, the last value on the way.
const yaml::Node& locate(const yaml::Node& root, const std::vector<Step>& steps);

}  // namespace sweep::plan
