#include "orchestrator/plan/row_checks.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/matrix.h"

namespace sweep::plan {

namespace {

namespace rule = diag::rule;
using schema::MatrixEntry;

// The values of one filter against what entries have.
void check_values(std::string_view option, const std::vector<std::string>& values, const schema::Checkout& checkout,
                  const std::function<const std::string&(const MatrixEntry&)>& of, bool prefix,
                  diag::Diagnostics& out) {
  for (const std::string& value : values) {
    std::vector<std::string_view> known;
    bool found = false;
    for (const MatrixEntry& entry : checkout.entries) {
      known.push_back(of(entry));
      found = found || (prefix ? of(entry).starts_with(value) : of(entry) == value);
    }
    if (found) continue;
    const auto nearest = base::nearest(value, known);
    out.add(diag::make(rule::plan_filter_matches_nothing,
                       fmt::format("{} \"{}\" matches no matrix entry", option, value),
                       nearest ? fmt::format("did you mean \"{}\"?", *nearest) : std::string()));
  }
}

}  // namespace

void check_rows_left(const std::vector<BuiltRow>& rows, diag::Diagnostics& out) {
  if (rows.empty() && !out.has_errors())
    out.add(diag::make(rule::plan_no_row, "the filters leave no row of the job matrix",
                       "relax a filter; `plan` without filters lists everything"));
}

void check_filters(const schema::Checkout& checkout, const FullSweep& options, diag::Diagnostics& out) {
  if (checkout.entries.empty()) return;
  const auto check = [&](std::string_view option, const std::vector<std::string>& values,
                         const std::function<const std::string&(const MatrixEntry&)>& of,
                         bool prefix = false) { check_values(option, values, checkout, of, prefix, out); };
  check(
      "--model-prefix", options.model_prefixes, [](const MatrixEntry& e) -> const std::string& { return e.key; }, true);
  check("--precision", options.precisions,
        [](const MatrixEntry& e) -> const std::string& { return e.precision.value; });
  check("--framework", options.frameworks,
        [](const MatrixEntry& e) -> const std::string& { return e.framework.value; });
  check("--runner-type", options.runner_types,
        [](const MatrixEntry& e) -> const std::string& { return e.runner.value; });
}

}  // namespace sweep::plan
