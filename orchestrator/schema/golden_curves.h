// Golden acceptance lengths, looked up by model, thinking mode and number of draft tokens. Private to this module.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/config.h"

namespace sweep::schema {

class GoldenCurves {
 public:
  explicit GoldenCurves(const std::vector<AcceptanceCurve>& curves);

  // One value that a curve gives, with the curve.
  struct Value {
    double length;
    const AcceptanceCurve* curve;
  };

  // Curves of the entry's model, also those of a differently quantised checkpoint.
  const std::vector<const AcceptanceCurve*>& related(const MatrixEntry& entry) const;

  // What the curves of exactly this model say; thinking_on goes first where a model has both modes. More than one
  // value means that two curves disagree.
  std::vector<Value> values(const MatrixEntry& entry, int64_t draft_tokens) const;

  // Whether some related curve has this length, for this number of drafts if it is known.
  bool is_golden(const MatrixEntry& entry, double length, std::optional<int64_t> draft_tokens) const;

  // Whether any model has this length at this number of drafts.
  bool has_length(double length, std::optional<int64_t> draft_tokens) const;

 private:
  const std::vector<AcceptanceCurve>& curves_;
  std::unordered_map<std::string, std::vector<const AcceptanceCurve*>> by_model_;
};

// Curves that define one model and mode twice with different lengths.
void check_curves(const std::vector<AcceptanceCurve>& curves, diag::Diagnostics& out);

}  // namespace sweep::schema
