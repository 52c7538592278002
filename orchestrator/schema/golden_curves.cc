#include "orchestrator/schema/golden_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr double kSameLength = 1e-6;  // curves have two decimals

bool same(double a, double b) {
  return std::fabs(a - b) < kSameLength;
}

// The acceptance of a model does not depend on how its weights are stored.
std::string without_format(std::string name) {
  for (const std::string_view suffix : {"-fp8", "-nvfp4", "-mxfp4", "-fp4", "-bf16"}) {
    if (!name.ends_with(suffix)) continue;
    name.resize(name.size() - suffix.size());
    break;
  }
  return name;
}

bool gives(const AcceptanceCurve& curve, double length, std::optional<int64_t> drafts) {
  return std::any_of(curve.lengths.begin(), curve.lengths.end(), [&](const auto& item) {
    return (!drafts || item.first == *drafts) && same(*item.second, length);
  });
}

}  // namespace

GoldenCurves::GoldenCurves(const std::vector<AcceptanceCurve>& curves) : curves_(curves) {
  for (const AcceptanceCurve& curve : curves) by_model_[without_format(curve.model)].push_back(&curve);
}

const std::vector<const AcceptanceCurve*>& GoldenCurves::related(const MatrixEntry& entry) const {
  static const std::vector<const AcceptanceCurve*> none;
  for (const std::string& name : curve_names_of(entry)) {
    const auto found = by_model_.find(without_format(name));
    if (found != by_model_.end()) return found->second;
  }
  return none;
}

std::vector<GoldenCurves::Value> GoldenCurves::values(const MatrixEntry& entry, int64_t draft_tokens) const {
  for (const std::string_view mode : {"thinking_on", "thinking_off"}) {
    std::vector<Value> values;
    for (const AcceptanceCurve* curve : related(entry)) {
      if (curve->mode != mode || !curve->is_for(entry)) continue;
      for (const auto& item : curve->lengths) {
        const double length = *item.second;
        if (item.first == draft_tokens &&
            std::none_of(values.begin(), values.end(), [&](const Value& v) { return same(v.length, length); }))
          values.push_back({length, curve});
      }
    }
    if (!values.empty()) return values;
  }
  return {};
}

bool GoldenCurves::is_golden(const MatrixEntry& entry, double length, std::optional<int64_t> draft_tokens) const {
  const auto& curves = related(entry);
  return std::any_of(curves.begin(), curves.end(),
                     [&](const AcceptanceCurve* curve) { return gives(*curve, length, draft_tokens); });
}

bool GoldenCurves::has_length(double length, std::optional<int64_t> draft_tokens) const {
  return std::any_of(curves_.begin(), curves_.end(),
                     [&](const AcceptanceCurve& curve) { return gives(curve, length, draft_tokens); });
}

void check_curves(const std::vector<AcceptanceCurve>& curves, diag::Diagnostics& out) {
  std::map<std::pair<std::string_view, std::string_view>, const AcceptanceCurve*> seen;
  for (const AcceptanceCurve& curve : curves) {
    const auto [found, added] =
        seen.emplace(std::pair{std::string_view(curve.model), std::string_view(curve.mode)}, &curve);
    if (added) continue;
    const AcceptanceCurve& first = *found->second;
    for (const auto& [drafts, length] : curve.lengths) {
      const auto other = std::find_if(first.lengths.begin(), first.lengths.end(),
                                      [&, count = drafts](const auto& item) { return item.first == count; });
      if (other == first.lengths.end() || same(*other->second, *length)) continue;
      diag::Diagnostic d = finding(
          rule::acceptance_curve_twice, *curve.document, curve.where, fmt::format("{}.{}", curve.model, curve.mode),
          fmt::format("\"{}\" has two {} curves that disagree: with {} draft tokens {} here, {} there", curve.model,
                      curve.mode, drafts, *length, *other->second),
          "name the model of one of them differently, for example after its sampling method");
      d.notes.push_back({"the other curve is here", first.document->span(first.where)});
      out.add(std::move(d));
      break;
    }
  }
}

}  // namespace sweep::schema
