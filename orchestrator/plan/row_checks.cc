#include "orchestrator/plan/row_checks.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <unordered_map>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/matrix.h"

namespace sweep::plan {

namespace {

namespace rule = diag::rule;
using schema::MatrixEntry;

std::string worker_sizes(const Row& worker) {
  return fmt::format("tp{}-pp{}-dcp{}-pcp{}-ep{}-dp{}-nw{}", worker.at("tp").dump(), worker.at("pp").dump(),
                     worker.at("dcp-size").dump(), worker.at("pcp-size").dump(), worker.at("ep").dump(),
                     worker.at("dp-attn").dump(), worker.at("num-worker").dump());
}

std::string joined_concurrencies(const BuiltRow& built) {
  std::string text;
  for (const int64_t value : built.concurrencies()) text += fmt::format("{}{}", text.empty() ? "" : "x", value);
  return text;
}

const std::string& text_field(const Row& row, const char* name) {
  return row.at(name).get_ref<const std::string&>();
}

diag::Diagnostic about(diag::RuleId rule, const BuiltRow& second, const BuiltRow& first, std::string message,
                       std::string note, std::string help) {
  diag::Diagnostic d = diag::make_at(rule, second.where(), std::move(message), std::move(help));
  d.path = second.path();
  d.notes.push_back({std::move(note), first.where()});
  return d;
}

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

std::string result_name(const BuiltRow& built) {
  const Row& row = built.row;
  const auto disagg = row.find("disagg");
  const std::string_view disaggregated = disagg != row.end() && *disagg == true ? "true" : "false";
  const std::string sizes =
      built.is_multi_node()
          ? fmt::format("prefill-{}_decode-{}", worker_sizes(row.at("prefill")), worker_sizes(row.at("decode")))
          : fmt::format("tp{}-pp{}-dcp{}-pcp{}-ep{}-dpa{}", row.at("tp").dump(), row.at("pp").dump(),
                        row.at("dcp-size").dump(), row.at("pcp-size").dump(), row.at("ep").dump(),
                        row.at("dp-attn").dump());
  std::string name =
      fmt::format("{}_{}_{}_{}_disagg-{}_spec-{}_conc{}_{}", text_field(row, "exp-name"), text_field(row, "precision"),
                  text_field(row, "framework"), sizes, disaggregated, text_field(row, "spec-decoding"),
                  joined_concurrencies(built), text_field(row, "runner"));
  constexpr size_t kFingerprintDigits = 16;
  if (const auto print = row.find("recipe-fingerprint"); print != row.end())
    name += "_recipe-" + print->get_ref<const std::string&>().substr(0, kFingerprintDigits);
  return name;
}

void check_row_list(const std::vector<BuiltRow>& rows, diag::Diagnostics& out) {
  if (rows.empty() && !out.has_errors())
    out.add(diag::make(rule::plan_no_row, "the filters leave no row of the job matrix",
                       "relax a filter; `plan` without filters lists everything"));
  std::unordered_map<std::string, const BuiltRow*> by_name;
  for (const BuiltRow& built : rows) {
    const auto [place, inserted] = by_name.emplace(result_name(built), &built);
    if (inserted) continue;
    const BuiltRow& first = *place->second;
    if (first.row == built.row)
      out.add(about(rule::plan_duplicate_row, built, first,
                    fmt::format("entry \"{}\" gives the row at concurrency {} a second time", built.entry->key,
                                joined_concurrencies(built)),
                    "first given here", "remove one of the two points; the job would run twice"));
    else
      out.add(about(rule::plan_result_name, built, first,
                    fmt::format("different rows share the result name \"{}\"", place->first),
                    "the other row comes from here",
                    "results of one would replace those of the other: let them differ in a field of the name"));
  }
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
