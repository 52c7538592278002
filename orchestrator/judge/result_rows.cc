#include "orchestrator/judge/result_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "orchestrator/diag/rules/result.h"
#include "orchestrator/yaml/scalar.h"

namespace sweep::judge {

namespace {

namespace rule = diag::rule;
using yaml::Node;

constexpr int64_t kMostOfOneSize = 4096;
constexpr double kRounding = 1e-6;

// Reads one row.
class RowReader {
 public:
  RowReader(const yaml::Document& document, size_t index, ResultRows& out)
      : document_(document), path_(fmt::format("[{}]", index)), out_(out) {}

  void read(const Node& row) {
    if (!row.is_map()) return bad(row.where, fmt::format("a row is {}, expected an object", yaml::kind_name(row.kind)));
    gpus_.id = path_;
    if (const Node* id = row.find("id"); id != nullptr && id->is_scalar()) gpus_.id = id->text;
    const bool by_role = row.find("prefill_tp") != nullptr || row.find("decode_tp") != nullptr;
    const int64_t decode = by_role ? role(row, "decode_", 0) : 0;
    gpus_.topology = by_role ? role(row, "prefill_", 0) + decode : role(row, "", 1);
    if (failed_) return;
    if (gpus_.topology == 0) return bad(row.where, "the row is of no GPU");
    gpus_.powered = size(row, "gpus_with_power", 0);
    if (const auto replicas = size(row, "data_parallel_size", 1); replicas && !attention_only(row))
      gpus_.replicas = replicas;
    gpus_.output_throughput = number(row, "output_throughput");
    if (failed_) return;
    decide(row);
    check_stated(row, decode);
    out_.rows.push_back(gpus_);
  }

 private:
  void report(diag::RuleId rule, yaml::Range where, std::string message, std::string help = {}) {
    diag::Diagnostic d = diag::make_at(rule, document_.span(where), std::move(message), std::move(help));
    d.path = path_;
    out_.findings.add(std::move(d));
  }

  void bad(yaml::Range where, std::string message) {
    failed_ = true;
    out_.readable = false;
    report(rule::result_row, where, std::move(message));
  }

  std::optional<int64_t> size(const Node& row, std::string_view key, int64_t least) {
    const Node* node = row.find(key);
    if (node == nullptr || node->is_null()) return std::nullopt;
    const auto value = yaml::decode_integer(*node);
    if (value && *value >= least && *value <= kMostOfOneSize) return *value;
    bad(node->where, fmt::format("\"{}\" is {}, expected an integer from {} to {}", key, yaml::describe(*node), least,
                                 kMostOfOneSize));
    return std::nullopt;
  }

  std::optional<double> number(const Node& row, std::string_view key) {
    const Node* node = row.find(key);
    if (node == nullptr || node->is_null()) return std::nullopt;
    const auto value = yaml::decode_number(*node);
    if (value && *value >= 0) return *value;
    bad(node->where, fmt::format("\"{}\" is {}, expected a number of at least 0", key, yaml::describe(*node)));
    return std::nullopt;
  }

  // GPUs of one role; sizes that are not stated are 1.
  int64_t role(const Node& row, const std::string& prefix, int64_t least_tp) {
    const std::string tp_key = prefix + "tp";
    const auto tp = size(row, tp_key, least_tp);
    if (!tp && !failed_) {
      if (least_tp == 0) return 0;
      bad(row.where, fmt::format("there is no \"{}\", so the row is of an unknown number of GPUs", tp_key));
    }
    int64_t gpus = tp.value_or(0);
    gpus *= size(row, prefix + "pp", 1).value_or(1);
    gpus *= size(row, prefix + "pcp_size", 1).value_or(1);
    if (!prefix.empty()) gpus *= size(row, prefix + "num_workers", 0).value_or(1);
    return gpus;
  }

  // Data parallel attention splits the ranks that tp counts and adds none.
  static bool attention_only(const Node& row) {
    const Node* node = row.find("dp_attention");
    return node != nullptr && node->is_scalar() && node->text == "true";
  }

  void decide(const Node& row) {
    const int64_t replicated = gpus_.topology * gpus_.replicas.value_or(1);
    const bool replicas_differ = replicated != gpus_.topology;
    const bool powered_differs = gpus_.powered && *gpus_.powered != gpus_.topology;
    gpus_.conflict = replicas_differ || powered_differs;
    if (!gpus_.conflict) {
      gpus_.gpus = gpus_.topology;
      return;
    }
    const std::string said =
        fmt::format("\"{}\": the topology is of {} GPU{}{}{}", gpus_.id, gpus_.topology, gpus_.topology == 1 ? "" : "s",
                    replicas_differ ? fmt::format(", with data parallel size {} of {}", *gpus_.replicas, replicated)
                                    : std::string(),
                    gpus_.powered ? fmt::format(", {} drew power", *gpus_.powered) : std::string());
    if (gpus_.powered && (*gpus_.powered == gpus_.topology || *gpus_.powered == replicated)) {
      gpus_.gpus = *gpus_.powered;
      return report(rule::result_gpu_conflict, row.where,
                    fmt::format("{}; figures per GPU are over {}", said, *gpus_.gpus),
                    "state the sizes that ran: workers x tp x pp x pcp is the number of GPUs");
    }
    report(rule::result_gpu_unknown, row.where, fmt::format("{}; no figure per GPU is given", said),
           "state the sizes that ran: workers x tp x pp x pcp is the number of GPUs");
  }

  void check_stated(const Node& row, int64_t decode) {
    const auto stated = number(row, "output_tput_per_gpu");
    const auto expected = gpus_.output_throughput_per_gpu();
    if (!stated || !expected) return;
    const auto equals = [&](double value) { return std::fabs(*stated - value) <= kRounding * (1 + std::fabs(value)); };
    if (equals(*expected)) return;
    diag::Diagnostic d =
        diag::make_at(rule::result_per_gpu, document_.span(row.find("output_tput_per_gpu")->where),
                      fmt::format("\"{}\": \"output_tput_per_gpu\" is {}, expected {} / {} GPUs = {:.6f}", gpus_.id,
                                  *stated, *gpus_.output_throughput, *gpus_.gpus, *expected));
    d.path = path_ + ".output_tput_per_gpu";
    if (decode != 0 && equals(*gpus_.output_throughput / static_cast<double>(decode))) {
      d.severity = diag::Severity::kWarning;
      d.help = fmt::format("it is over the {} GPUs of decode alone, as InferenceX states it", decode);
    }
    out_.findings.add(std::move(d));
  }

  const yaml::Document& document_;
  std::string path_;
  ResultRows& out_;
  RowGpus gpus_;
  bool failed_ = false;
};

bool is_row(const Node& node) {
  return node.is_map() &&
         (node.find("tp") != nullptr || node.find("prefill_tp") != nullptr || node.find("decode_tp") != nullptr);
}

void check_ids(const yaml::Document& document, ResultRows& rows) {
  std::set<std::string> seen;
  for (const RowGpus& row : rows.rows) {
    if (seen.insert(row.id).second) continue;
    rows.readable = false;
    rows.findings.add(
        diag::make_at(rule::result_row, {.file = document.name()}, fmt::format("two rows are called \"{}\"", row.id)));
  }
}

}  // namespace

std::optional<double> RowGpus::output_throughput_per_gpu() const {
  if (!gpus || *gpus == 0 || !output_throughput) return std::nullopt;
  return *output_throughput / static_cast<double>(*gpus);
}

bool holds_result_rows(const yaml::Document& document) {
  const Node& root = document.root();
  return root.is_sequence() || is_row(root);
}

ResultRows check_result_rows(const yaml::Document& document) {
  ResultRows rows;
  const Node& root = document.root();
  if (root.is_sequence()) {
    for (size_t i = 0; i < root.items.size(); ++i) RowReader(document, i, rows).read(root.items[i]);
  } else {
    RowReader(document, 0, rows).read(root);
  }
  check_ids(document, rows);
  return rows;
}

nlohmann::json values_json(const ResultRows& rows) {
  using nlohmann::json;
  json gpus = json::object();
  json per_gpu = json::object();
  json conflict = json::array();
  for (const RowGpus& row : rows.rows) {
    const auto throughput = row.output_throughput_per_gpu();
    gpus[row.id] = row.gpus ? json(*row.gpus) : json(nullptr);
    per_gpu[row.id] = throughput ? json(*throughput) : json(nullptr);
    if (row.conflict) conflict.push_back(row.id);
  }
  return {{"gpus", std::move(gpus)}, {"output_tput_per_gpu", std::move(per_gpu)}, {"conflict", std::move(conflict)}};
}

}  // namespace sweep::judge
