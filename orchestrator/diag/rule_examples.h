// Short examples for `sweepctl explain`: what breaks a rule and what obeys it. The tests validate every one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "orchestrator/diag/rules.h"

namespace sweep::diag {

// Where the lines of an example stand.
enum class ExamplePlace : uint8_t {
  kPoint,      // one entry of a search space
  kEntry,      // a matrix entry
  kResearch,   // a research-only matrix entry with seven draft tokens
  kChangelog,  // a changelog
};

std::string_view place_name(ExamplePlace place);  // "in a matrix entry"

struct RuleExample {
  std::string_view slug;
  ExamplePlace place = ExamplePlace::kEntry;
  std::string_view bad;
  std::string_view good;
};

// Null where a rule needs more than a few lines, or no file at all, to be broken.
const RuleExample* find_example(std::string_view slug);
size_t example_count();

}  // namespace sweep::diag
