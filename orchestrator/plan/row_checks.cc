#include "orchestrator/plan/row_checks.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/matrix.h"

namespace sweep::plan {

namespace {

namespace rule = diag::rule;
using schema::MatrixEntry;

void append_text(std::string& out, const Row& row, const char* name) {
  out += row.at(name).get_ref<const std::string&>();
}

// "tp8-pp1-dcp1-pcp1-ep8"; ranks are those of a point or of a worker.
template <class Ranks>
void append_ranks(std::string& out, const Ranks& ranks, int64_t ep) {
  const std::array<std::pair<std::string_view, int64_t>, 5> sizes{{{"tp", ranks.tp.value_or(1)},
                                                                   {"-pp", ranks.pp.value_or(1)},
                                                                   {"-dcp", ranks.dcp_size.value_or(1)},
                                                                   {"-pcp", ranks.pcp_size.value_or(1)},
                                                                   {"-ep", ep}}};
  for (const auto& [label, size] : sizes) out.append(label).append(std::to_string(size));
}

void append_worker(std::string& out, const schema::Worker& worker) {
  append_ranks(out, worker, worker.ep.value_or(1));
  out.append("-dp").append(worker.dp_attn.value ? "true" : "false");
  out.append("-nw").append(std::to_string(worker.num_worker.value));
}

std::string joined_concurrencies(const BuiltRow& built) {
  std::string text;
  for (const int64_t value : built.concurrencies()) {
    if (!text.empty()) text += 'x';
    text += std::to_string(value);
  }
  return text;
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
  std::string name;
  append_text(name, row, "exp-name");
  name.append(1, '_').append(built.entry->precision.value);
  name.append(1, '_').append(built.entry->framework.value).append(1, '_');
  const schema::Point& point = *built.point;
  if (built.is_multi_node()) {
    append_worker(name += "prefill-", *point.prefill);
    append_worker(name += "_decode-", *point.decode);
  } else {
    append_ranks(name, point, row.at("ep").get<int64_t>());
    name.append("-dpa").append(point.dp_attn.value ? "true" : "false");
  }
  name += built.entry->disagg.value ? "_disagg-true" : "_disagg-false";
  name.append("_spec-").append(schema::choice_name(point.spec_decoding.value_or(schema::SpecDecoding::kNone)));
  name.append("_conc").append(joined_concurrencies(built));
  append_text(name += '_', row, "runner");
  constexpr size_t kFingerprintDigits = 16;
  if (const auto print = row.find("recipe-fingerprint"); print != row.end())
    name.append("_recipe-").append(print->get_ref<const std::string&>().substr(0, kFingerprintDigits));
  return name;
}

void check_row_list(const std::vector<BuiltRow>& rows, diag::Diagnostics& out) {
  if (rows.empty() && !out.has_errors())
    out.add(diag::make(rule::plan_no_row, "the filters leave no row of the job matrix",
                       "relax a filter; `plan` without filters lists everything"));
  check_row_names(rows, out);
}

void check_row_names(const std::vector<BuiltRow>& rows, diag::Diagnostics& out) {
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
