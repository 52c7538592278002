// New entries as text: quoted so that every YAML reader sees the same characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::changelog {

struct NewEntry {
  std::vector<std::string> config_keys;
  std::vector<std::string> description;
  std::string pr_link;
  bool evals_only = false;
  bool all_evals = false;
  bool append_only = false;
  std::optional<int64_t> eval_min_prefill_ep = std::nullopt;
  std::vector<std::string> scenario_types = {};
};

// The lines of the entry, with a line break behind the last. Fails with changelog/bad-entry for text that is no UTF-8.
diag::Result<std::string> to_yaml(const NewEntry& entry);

// A scalar in double quotes; characters that may not stand in a file are escaped.
std::string quoted_scalar(std::string_view text);

// The separator and the entry behind the text of a changelog, which is empty or ends with a newline.
std::string appended(std::string_view changelog, std::string_view entry);

}  // namespace sweep::changelog
