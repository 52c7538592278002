#include "orchestrator/diag/diagnostic.h"

#include <algorithm>

namespace sweep::diag {

Diagnostic make(RuleId rule, std::string message, std::string help) {
  return Diagnostic{
      .rule = rule, .severity = rule_info(rule).severity, .message = std::move(message), .help = std::move(help)};
}

Diagnostic make_at(RuleId rule, SourceSpan where, std::string message, std::string help) {
  Diagnostic diagnostic = make(rule, std::move(message), std::move(help));
  diagnostic.where = std::move(where);
  return diagnostic;
}

size_t Diagnostics::error_count() const {
  return static_cast<size_t>(
      std::count_if(items_.begin(), items_.end(), [](const auto& d) { return d.severity == Severity::kError; }));
}

size_t Diagnostics::warning_count() const {
  return static_cast<size_t>(
      std::count_if(items_.begin(), items_.end(), [](const auto& d) { return d.severity == Severity::kWarning; }));
}

void Diagnostics::normalise() {
  const SourceSpan nowhere;
  const auto order = [&nowhere](const Diagnostic& d) {
    const SourceSpan& where = d.where ? *d.where : nowhere;
    return std::tie(where.file, where.line, where.column, d.rule, d.message, d.path, where.end_column);
  };
  std::stable_sort(items_.begin(), items_.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  items_.erase(
      std::unique(items_.begin(), items_.end(), [&](const auto& a, const auto& b) { return order(a) == order(b); }),
      items_.end());
}

}  // namespace sweep::diag
