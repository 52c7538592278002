// The one type for every problem a user can cause or must act on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "orchestrator/base/expected.h"
#include "orchestrator/diag/rules.h"

namespace sweep::diag {

// A place in a file. Lines and columns start at 1; columns count bytes; line 0 means the file as a whole.
// `end_column` is one past the last byte; 0 means unknown.
struct SourceSpan {
  std::string file;
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t end_column = 0;

  auto order() const { return std::tie(file, line, column, end_column); }
  friend bool operator==(const SourceSpan& a, const SourceSpan& b) { return a.order() == b.order(); }
};

// Further information, often about a second place ("first defined here").
struct Note {
  std::string message;
  std::optional<SourceSpan> where;
};

struct Diagnostic {
  RuleId rule;
  Severity severity = Severity::kError;
  std::string message;  // lower case, no full stop: what was found and what was expected
  std::optional<SourceSpan> where = std::nullopt;
  std::string path = {};  // like `entry.scenarios.fixed-seq-len[0].isl`; empty where it makes no sense
  std::vector<Note> notes = {};
  std::string help = {};  // what to do next
};

// The value of an operation that stops at its first failure.
template <class T>
using Result = base::Expected<T, Diagnostic>;
using base::Done;

// Builds a diagnostic with the rule's default severity.
Diagnostic make(RuleId rule, std::string message, std::string help = {});
Diagnostic make_at(RuleId rule, SourceSpan where, std::string message, std::string help = {});

inline base::Unexpected<Diagnostic> fail(Diagnostic diagnostic) {
  return base::Unexpected<Diagnostic>{std::move(diagnostic)};
}
inline base::Unexpected<Diagnostic> fail(RuleId rule, std::string message, std::string help = {}) {
  return fail(make(rule, std::move(message), std::move(help)));
}

// Collects everything that checks report; sorted and without exact duplicates when taken.
class Diagnostics {
 public:
  void add(Diagnostic diagnostic) { items_.push_back(std::move(diagnostic)); }
  void add_all(const Diagnostics& other) { items_.insert(items_.end(), other.items_.begin(), other.items_.end()); }

  size_t error_count() const;
  size_t warning_count() const;
  bool has_errors() const { return error_count() != 0; }
  bool empty() const { return items_.empty(); }

  const std::vector<Diagnostic>& items() const { return items_; }

  // Orders by file, line, column, rule, message and drops exact duplicates.
  void normalise();

 private:
  std::vector<Diagnostic> items_;
};

}  // namespace sweep::diag
