// Rules over the fields of one matrix entry. Most are the peer's container rules (InferenceX,
// utils/matrix_logic/validation.py), with the field named where the peer names the container.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/facts.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

using diag::RuleId;
namespace rule = diag::rule;

class EntryCheck {
 public:
  EntryCheck(const MatrixEntry& entry, const std::vector<PointView>& views, diag::Diagnostics& out)
      : entry_(entry), views_(views), out_(out) {}

  void run() {
    check_scenarios();
    for (const PointView& view : views_) check_point(view);
    report_expert_ranks();
    check_router_scope();
    check_transfer();
  }

 private:
  void report(RuleId rule, yaml::Range where, std::string path, std::string message, std::string help = {}) {
    out_.add(finding(rule, *entry_.document, where, std::move(path), std::move(message), std::move(help)));
  }

  void check_scenarios() {
    if (!entry_.scenarios) return;
    const Scenarios& scenarios = *entry_.scenarios;
    const bool nothing = scenarios.fixed_seq_len.empty() && scenarios.agentic_coding.empty();
    if (nothing)
      report(rule::matrix_no_scenario, scenarios.where, entry_.key + ".scenarios",
             fmt::format("entry \"{}\" has no scenario: \"fixed-seq-len\" and \"agentic-coding\" are empty or absent",
                         entry_.key),
             "add a fixed-seq-len or agentic-coding block");
    else
      check_empty_lists(scenarios);
    if (!scenarios.agentic_coding.empty() && entry_.runner && !entry_.runner->starts_with("cluster:"))
      report(
          rule::matrix_agentic_runner, entry_.runner.where, entry_.key + ".runner",
          fmt::format("an entry with agentic scenarios needs a runner \"cluster:...\", found \"{}\"", *entry_.runner),
          "agentic points share the host memory of a cluster's nodes");
    if (entry_.disagg.value && !entry_.multinode.value)
      report(rule::matrix_topology, entry_.disagg.where, entry_.key + ".disagg",
             "\"disagg\" is true in a single-node entry", "set multinode to true, or remove disagg");
  }

  const yaml::Node* written_scenario(std::string_view kind) const {
    const yaml::Node* scenarios = entry_.source == nullptr ? nullptr : entry_.source->find("scenarios");
    return scenarios == nullptr ? nullptr : scenarios->find(kind);
  }

  void report_empty(yaml::Range where, std::string path, std::string_view what) {
    report(rule::matrix_nothing_listed, where, std::move(path), fmt::format("{} is empty and measures nothing", what),
           "fill it, or remove the key");
  }

  void check_empty_lists(const Scenarios& scenarios) {
    const std::string path = entry_.key + ".scenarios.";
    for (const auto& [kind, empty] : {std::pair{"fixed-seq-len", scenarios.fixed_seq_len.empty()},
                                      std::pair{"agentic-coding", scenarios.agentic_coding.empty()}})
      if (const yaml::Node* written = empty ? written_scenario(kind) : nullptr)
        report_empty(written->where, path + kind, fmt::format("\"{}\"", kind));
    for (size_t i = 0; i < scenarios.fixed_seq_len.size(); ++i)
      if (scenarios.fixed_seq_len[i].search_space.empty())
        report_empty(scenarios.fixed_seq_len[i].where, fmt::format("{}fixed-seq-len[{}].search-space", path, i),
                     "\"search-space\"");
    for (size_t i = 0; i < scenarios.agentic_coding.size(); ++i)
      if (scenarios.agentic_coding[i].search_space.empty())
        report_empty(scenarios.agentic_coding[i].where, fmt::format("{}agentic-coding[{}].search-space", path, i),
                     "\"search-space\"");
  }

  void check_point(const PointView& view) {
    check_concurrency(view);
    check_parallelism(view);
    if (view.agentic != nullptr) check_agentic(view);
    const Point& point = *view.point;
    const bool speculative = point.spec_decoding && *point.spec_decoding != SpecDecoding::kNone;
    if (speculative && *point.spec_decoding == SpecDecoding::kDspark && !entry_.draft_tokens_of(point).stated())
      report(rule::matrix_draft_tokens, point.spec_decoding.where, view.path + ".spec-decoding",
             "\"spec-decoding: dspark\" needs \"num-draft-tokens\"",
             "state the number of draft tokens; a verification step has one more");
    if (!speculative && !point.spec_decoding.stated() && point.num_draft_tokens)
      report(rule::matrix_draft_tokens, point.num_draft_tokens.where, view.path + ".num-draft-tokens",
             "\"num-draft-tokens\" without speculative decoding", "set spec-decoding, or remove num-draft-tokens");
  }

  void check_concurrency(const PointView& view) {
    const Point& point = *view.point;
    const bool range = point.conc_start.stated() && point.conc_end.stated();
    const bool some_of_range = point.conc_start.stated() || point.conc_end.stated();
    const std::string shape = view.fixed != nullptr
                                  ? fmt::format(" of scenario {}/{}", view.fixed->isl.value, view.fixed->osl.value)
                                  : std::string();
    if (range && point.has_conc_list()) {
      report(rule::matrix_concurrency, point.conc_list->front().where, view.path + ".conc-list",
             fmt::format("entry \"{}\"{} states its concurrencies twice: \"conc-list\" and "
                         "\"conc-start\"/\"conc-end\"",
                         entry_.key, shape),
             "keep one of the two forms");
    } else if (!range && !point.has_conc_list()) {
      report(rule::matrix_concurrency, point.where, view.path,
             some_of_range ? "half a concurrency range: \"conc-start\" and \"conc-end\" belong together"
                           : "no concurrency is stated",
             "add conc-list: [1, 2, 4], or conc-start and conc-end");
    } else if (point.conc_start && point.conc_end && *point.conc_start > *point.conc_end) {
      report(rule::matrix_concurrency, point.conc_start.where, view.path + ".conc-start",
             fmt::format("\"conc-start\" {} is larger than \"conc-end\" {}", *point.conc_start, *point.conc_end),
             "swap the two");
    }
    if (!point.conc_list) return;
    if (point.conc_list->empty() && range)
      report(rule::matrix_nothing_listed, point.conc_start.where, view.path + ".conc-list",
             "\"conc-list\" is empty; the range of \"conc-start\" and \"conc-end\" is measured", "remove conc-list");
    std::set<int64_t> seen;
    for (size_t i = 0; i < point.conc_list->size(); ++i) {
      const Integer& value = (*point.conc_list)[i];
      if (value && !seen.insert(*value).second)
        report(rule::matrix_concurrency_repeated, value.where, fmt::format("{}.conc-list[{}]", view.path, i),
               fmt::format("concurrency {} is listed twice", *value), "remove one; the point would run twice");
    }
  }

  void check_divides(const Integer& dcp, const Integer& tp, const std::string& path) {
    if (dcp && tp && *tp % *dcp != 0)
      report(rule::matrix_parallelism, dcp.where, path + ".dcp-size",
             fmt::format("\"tp\" {} is not divisible by \"dcp-size\" {}", *tp, *dcp),
             "decode-context parallelism splits the tensor-parallel ranks evenly");
  }

  // Replicas of data-parallel attention are often stated as workers, and experts spread over all of them.
  void check_expert_ranks(const Integer& ep, int64_t ranks, const std::string& path) {
    if (ep && *ep > ranks) too_many_experts_.push_back({ep, ranks, path + ".ep"});
  }

  // Whole entries are written in this way: once is enough.
  void report_expert_ranks() {
    if (too_many_experts_.empty()) return;
    const ExpertRanks& first = too_many_experts_.front();
    const size_t more = too_many_experts_.size() - 1;
    report(rule::matrix_expert_ranks, first.ep.where, first.path,
           fmt::format("\"ep\" {} is larger than the {} ranks that it shares{}", *first.ep, first.ranks,
                       more == 0 ? "" : fmt::format(", and {} more of this entry", more)),
           "expert parallelism uses the ranks of tp x pp x pcp-size and adds none; per-GPU figures would divide by too "
           "few GPUs");
  }

  void check_parallelism(const PointView& view) {
    const Point& point = *view.point;
    check_divides(point.dcp_size, point.tp, view.path);
    if (point.prefill) check_divides(point.prefill->dcp_size, point.prefill->tp, view.path + ".prefill");
    if (point.decode) check_divides(point.decode->dcp_size, point.decode->tp, view.path + ".decode");
    if (!point.is_multi_node() && point.tp) check_expert_ranks(point.ep, point.gpus(), view.path);
    if (point.prefill) check_expert_ranks(point.prefill->ep, point.prefill->gpus(), view.path + ".prefill");
    if (point.decode && point.decode->num_worker.value_or(1) != 0)
      check_expert_ranks(point.decode->ep, point.decode->gpus(), view.path + ".decode");
    if (point.prefill && point.decode && point.prefill->hardware.present != point.decode->hardware.present) {
      const Worker& with = point.prefill->hardware ? *point.prefill : *point.decode;
      report(rule::matrix_topology, with.hardware.where,
             view.path + (point.prefill->hardware ? ".prefill.hardware" : ".decode.hardware"),
             "\"hardware\" is stated for one role only", "state it for prefill and decode, or for neither");
    }
  }

  void check_agentic(const PointView& view) {
    const Point& point = *view.point;
    if (point.tp.present == (point.prefill && point.decode))
      report(rule::matrix_topology, point.where, view.path,
             "an agentic point needs either \"tp\", or \"prefill\" and \"decode\"",
             "tp for a single-node point, workers for a multi-node one");
    else if (point.tp && entry_.multinode.value)
      report(rule::matrix_topology, point.tp.where, view.path + ".tp", "\"tp\" at this level in a multi-node entry",
             "describe prefill and decode workers, or set multinode to false");
    else if (point.prefill && entry_.multinode && !*entry_.multinode)
      report(rule::matrix_topology, point.prefill->where, view.path + ".prefill", "workers in a single-node entry",
             "state tp, or set multinode to true");
    if (point.prefill && (point.pp || point.dcp_size || point.pcp_size))
      report(rule::matrix_topology, point.where, view.path,
             "\"pp\", \"dcp-size\" and \"pcp-size\" belong into the workers of a multi-node point");
    const bool dram = point.kv_offloading && *point.kv_offloading == KvOffloading::kDram;
    if (dram && !point.kv_offload_backend)
      report(rule::matrix_kv_offload, point.kv_offloading.where, view.path + ".kv-offloading",
             "\"kv-offloading: dram\" needs \"kv-offload-backend\"", "name the backend that moves the blocks");
    if (!dram && point.kv_offload_backend)
      report(rule::matrix_kv_offload, point.kv_offload_backend->where, view.path + ".kv-offload-backend",
             "\"kv-offload-backend\" without \"kv-offloading: dram\"");
    if (point.tp && !point.kv_offloading)
      report(rule::matrix_kv_offload, point.where, view.path,
             "a single-node agentic point must state \"kv-offloading\"", "write kv-offloading: none");
    if (dram && !view.agentic->dram_utilization)
      report(rule::matrix_kv_offload, point.kv_offloading.where, view.path + ".kv-offloading",
             "\"kv-offloading: dram\" needs \"dram-utilization\" in its block",
             "state the share of the host memory, above 0 and at most 1");
  }

  void check_router_scope() {
    if (!entry_.router) return;
    for (const PointView& view : views_)
      if (view.point->router)
        report(rule::matrix_two_scopes, view.point->router->where, view.path + ".router",
               "\"router\" is stated for the entry and for a point", "state it in one place");
  }

  void check_transfer() {
    const bool nowhere = !entry_.kv_p2p_transfer.stated() &&
                         std::none_of(views_.begin(), views_.end(),
                                      [](const PointView& view) { return view.point->kv_p2p_transfer.stated(); });
    if (entry_.disagg.value && nowhere && entry_.scenarios)
      report(rule::matrix_transfer_missing, entry_.disagg.where, entry_.key + ".disagg",
             "\"disagg\" is true, and no \"kv-p2p-transfer\" is stated",
             "state it once for the entry, or at every point");
    for (const PointView& view : views_) {
      const Text& transfer = view.point->kv_p2p_transfer;
      if (transfer && entry_.kv_p2p_transfer)
        report(rule::matrix_two_scopes, transfer.where, view.path + ".kv-p2p-transfer",
               "\"kv-p2p-transfer\" is stated for the entry and for a point", "state it in one place");
      if (transfer && entry_.multinode && !*entry_.multinode)
        report(rule::matrix_topology, transfer.where, view.path + ".kv-p2p-transfer",
               "\"kv-p2p-transfer\" in a single-node entry", "only disaggregated workers exchange KV blocks");
      // An empty value at the point hides the entry's.
      const bool hidden = !transfer.stated() && view.source != nullptr && view.source->find_entry("kv-p2p-transfer");
      if (entry_.disagg.value && !nowhere && !transfer.stated() && (hidden || !entry_.kv_p2p_transfer.stated()))
        report(rule::matrix_transfer_missing, view.point->where, view.path,
               "a disaggregated point needs \"kv-p2p-transfer\"", "state it here, or once for the entry");
    }
  }

  struct ExpertRanks {
    Integer ep;
    int64_t ranks;
    std::string path;
  };

  const MatrixEntry& entry_;
  const std::vector<PointView>& views_;
  diag::Diagnostics& out_;
  std::vector<ExpertRanks> too_many_experts_;
};

}  // namespace

diag::Diagnostic finding(RuleId rule, const yaml::Document& document, yaml::Range where, std::string path,
                         std::string message, std::string help) {
  diag::Diagnostic d = diag::make_at(rule, document.span(where), std::move(message), std::move(help));
  d.path = std::move(path);
  return d;
}

void check_entry(const MatrixEntry& entry, const std::vector<PointView>& views, diag::Diagnostics& out) {
  EntryCheck(entry, views, out).run();
}

void check_duplicate_entries(const Checkout& checkout, diag::Diagnostics& out) {
  struct Pair {
    const MatrixEntry* entry;
    const MatrixEntry* first;
    size_t more = 0;  // further entries of the same two files
  };
  std::vector<Pair> pairs;
  std::map<std::pair<const yaml::Document*, const yaml::Document*>, size_t> of_files;
  std::unordered_map<std::string_view, const MatrixEntry*> seen;
  for (const MatrixEntry& entry : checkout.entries) {
    const auto [found, added] = seen.emplace(entry.key, &entry);
    if (added) continue;
    const auto files = std::pair{found->second->document.get(), entry.document.get()};
    const auto [pair, is_new] = of_files.emplace(files, pairs.size());
    if (is_new)
      pairs.push_back({&entry, found->second});
    else
      ++pairs[pair->second].more;
  }
  for (const auto& [entry, first, more] : pairs) {
    diag::Diagnostic d =
        finding(rule::matrix_duplicate_entry, *entry->document, entry->key_where, entry->key,
                fmt::format("entry \"{}\" is defined twice{}", entry->key,
                            more == 0 ? "" : fmt::format(", and {} more of this file", more)),
                more == 0 ? "rename one of the two" : "rename them, or leave out one of the two files");
    d.notes.push_back({"first defined here", first->document->span(first->key_where)});
    out.add(std::move(d));
  }
}

}  // namespace sweep::schema
