// Entries of a changelog, as text.
#pragma once

#include <string>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::test {

inline std::string pull(int number) {
  return "https://github.com/o/n/pull/" + std::to_string(number);
}

inline std::string entry(const std::string& key, const std::string& link, const std::string& text = "x") {
  return "- config-keys:\n    - " + key + "\n  description:\n    - \"" + text + "\"\n  pr-link: " + link + "\n";
}

// "rule: message", a line each.
inline std::string messages(const diag::Diagnostics& out) {
  std::string text;
  for (const diag::Diagnostic& d : out.items()) text += std::string(d.rule.info().slug) + ": " + d.message + "\n";
  return text;
}

}  // namespace sweep::test
