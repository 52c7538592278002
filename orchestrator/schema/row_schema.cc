// Rows of the job matrix, as `plan` prints them and workflows hand them back (InferenceX,
// utils/matrix_logic/validation.py), with the fields that our entries add.
#include "orchestrator/schema/row_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/schema/matrix_parts.h"

namespace sweep::schema {

namespace {

using std::vector;
namespace rule = diag::rule;

// What the rules over several fields need.
struct Row {
  yaml::Range where;
  Integer tp, dcp_size;
  Boolean disagg;
  Text kv_p2p_transfer;
  std::optional<Worker> prefill, decode;
  Located<KvOffloading> kv_offloading;
  std::optional<Component> kv_offload_backend;
};

vector<Field> join(std::initializer_list<vector<Field>> groups) {
  vector<Field> all;
  for (const vector<Field>& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

vector<Field> identity_fields() {
  return {unbound("image", any_text(), "container image", Need::kRequired),
          unbound("model", text(), "model repository", Need::kRequired),
          unbound("model-prefix", text(), "short name of the model", Need::kRequired),
          unbound("precision", text(), "number format of the weights", Need::kRequired),
          unbound("framework", text(), "engine", Need::kRequired),
          unbound("runner", text(), "label of the runners, or one machine", Need::kRequired),
          unbound("exp-name", text(), "name of the experiment", Need::kRequired),
          unbound("router", object(router_shape()).or_null(), "router in front of the workers"),
          unbound("recipe-fingerprint", text(&kSha256Form).or_null(), "digest of the row without its concurrency")};
}

// Only in rows of entries that state them.
vector<Field> policy_fields() {
  return {unbound("revision", text(&kCommitForm), "commit of the model repository"),
          unbound("recipe", text(), "recipe file with its variant"),
          unbound("num-draft-tokens", integer(1, kMostRanks), "draft tokens per verification step"),
          unbound("acceptance", object(acceptance_shape()), "acceptance control"),
          unbound("exact-lengths", boolean(), "every request has exactly isl and osl tokens"),
          unbound("research-only", boolean(), "never an official result"),
          unbound("status", choice_of<Status>(), "in-progress rows are never dispatched")};
}

vector<Field> speculation_field(Need need) {
  return {unbound("spec-decoding", choice_of<SpecDecoding>(), "speculative decoding method", need)};
}

vector<Field> length_fields() {
  return {unbound("isl", integer(1, kMostTokens), "prompt tokens of a request", Need::kRequired),
          unbound("osl", integer(1, kMostTokens), "output tokens of a request", Need::kRequired),
          unbound("max-model-len", integer(1, 3 * kMostTokens), "longest context of the engine", Need::kRequired)};
}

vector<Field> rank_fields() {
  return {field<&Row::tp>("tp", integer(1, kMostRanks), "tensor-parallel size", Need::kRequired),
          unbound("pp", integer(1, kMostRanks), "pipeline-parallel size", Need::kRequired),
          field<&Row::dcp_size>("dcp-size", integer(1, kMostRanks), "decode-context-parallel size", Need::kRequired),
          unbound("pcp-size", integer(1, kMostRanks), "prefill-context-parallel size", Need::kRequired),
          unbound("ep", integer(1, kMostRanks), "expert-parallel size", Need::kRequired),
          unbound("dp-attn", boolean(), "data-parallel attention", Need::kRequired)};
}

vector<Field> worker_fields() {
  return {
      field<&Row::prefill>("prefill", object(worker_shape()), "workers that prefill", Need::kRequired),
      field<&Row::decode>("decode", object(worker_shape()), "workers that decode", Need::kRequired),
      field<&Row::kv_p2p_transfer>("kv-p2p-transfer", text().or_null(), "how KV blocks move from prefill to decode"),
      field<&Row::disagg>("disagg", boolean(), "prefill and decode have workers of their own", Need::kRequired),
      unbound("eval-conc", integer(1, kMostConcurrency).or_null(), "concurrency of the evaluation")};
}

Shape concurrencies() {
  return list(integer(1, kMostConcurrency));
}

vector<Field> fixed_eval_fields() {
  return {unbound("run-eval", boolean(), "whether the row is evaluated too", Need::kRequired),
          unbound("eval-only", boolean(), "whether it is only evaluated")};
}

vector<Field> agentic_fields() {
  return {field<&Row::kv_offloading>("kv-offloading", choice_of<KvOffloading>(), "where KV blocks go that do not fit",
                                     Need::kRequired),
          field<&Row::kv_offload_backend>("kv-offload-backend", object(offload_backend_shape()).or_null(),
                                          "what moves them"),
          unbound("total-cpu-dram-gb", integer(0), "host memory for KV blocks, in GB", Need::kRequired),
          unbound("duration", integer(), "seconds of load", Need::kRequired),
          unbound("scenario-type", any_text(), "kind of scenario", Need::kRequired),
          unbound("run-eval", boolean().or_null(), "whether the row is evaluated too"),
          unbound("eval-only", boolean().or_null(), "whether it is only evaluated")};
}

const ObjectShape& single_fixed_row_shape() {
  static const ObjectShape shape{
      "a single-node row", "One point of fixed lengths on one node.",
      join({identity_fields(),
            speculation_field(Need::kRequired),
            length_fields(),
            rank_fields(),
            {unbound("conc", concurrencies().or_one(), "concurrency, or a list of them", Need::kRequired),
             field<&Row::disagg>("disagg", boolean(), "false", Need::kRequired)},
            fixed_eval_fields(),
            policy_fields()})};
  return shape;
}

const ObjectShape& multi_fixed_row_shape() {
  static const ObjectShape shape{"a multi-node row", "One topology of fixed lengths on several nodes.",
                                 join({identity_fields(),
                                       speculation_field(Need::kRequired),
                                       length_fields(),
                                       worker_fields(),
                                       {unbound("conc", concurrencies(), "concurrencies", Need::kRequired),
                                        unbound("eval-all-concs", boolean(), "whether every concurrency is evaluated")},
                                       fixed_eval_fields(),
                                       policy_fields()})};
  return shape;
}

const ObjectShape& single_agentic_row_shape() {
  static const ObjectShape shape{"a single-node agentic row", "Recorded agent sessions on one node.",
                                 join({identity_fields(),
                                       speculation_field(Need::kOptional),
                                       rank_fields(),
                                       {unbound("conc", integer(1, kMostConcurrency), "concurrency", Need::kRequired)},
                                       agentic_fields(),
                                       policy_fields()})};
  return shape;
}

const ObjectShape& multi_agentic_row_shape() {
  static const ObjectShape shape{"a multi-node agentic row", "Recorded agent sessions on several nodes.",
                                 join({identity_fields(),
                                       speculation_field(Need::kRequired),
                                       worker_fields(),
                                       {unbound("conc", concurrencies(), "concurrencies", Need::kRequired)},
                                       agentic_fields(),
                                       policy_fields()})};
  return shape;
}

// Any of these tells an agentic row, any of those a multi-node one.
const vector<Stated> kAgentic{
    {"scenario-type"}, {"kv-offloading"}, {"kv-offload-backend"}, {"duration"}, {"total-cpu-dram-gb"}};
const vector<Stated> kMultiNode{{"prefill"}, {"decode"}};

bool has(const yaml::Node& node, const vector<Stated>& fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const Stated& field) { return node.find_entry(field.field) != nullptr; });
}

class RowCheck {
 public:
  RowCheck(Decoder& decoder, const Row& row) : decoder_(decoder), row_(row) {}

  void run() {
    check_divides(row_.dcp_size, row_.tp, "");
    if (row_.prefill) check_divides(row_.prefill->dcp_size, row_.prefill->tp, "prefill");
    if (row_.decode) check_divides(row_.decode->dcp_size, row_.decode->tp, "decode");
    check_hardware();
    check_offload();
    if (!row_.disagg.value) return;
    if (!row_.prefill && !row_.decode)
      report("disagg", rule::matrix_topology, row_.disagg.where, "\"disagg\" is true in a single-node row",
             "prefill and decode share the workers of one node");
    else if (!row_.kv_p2p_transfer.stated())
      report("disagg", rule::matrix_transfer_missing, row_.disagg.where,
             "a disaggregated row needs \"kv-p2p-transfer\"", "name how KV blocks move from prefill to decode");
  }

 private:
  void report(std::string_view field, diag::RuleId id, yaml::Range where, std::string message, std::string help = {}) {
    const Decoder::Scope scope(decoder_, field, where);
    decoder_.report(id, where, std::move(message), std::move(help));
  }

  void check_divides(const Integer& dcp, const Integer& tp, std::string_view role) {
    if (!dcp || !tp || *tp % *dcp == 0) return;
    report(role.empty() ? "dcp-size" : fmt::format("{}.dcp-size", role), rule::matrix_parallelism, dcp.where,
           fmt::format("\"tp\" {} is not divisible by \"dcp-size\" {}", *tp, *dcp),
           "decode-context parallelism splits the tensor-parallel ranks evenly");
  }

  void check_hardware() {
    if (!row_.prefill || !row_.decode || row_.prefill->hardware.present == row_.decode->hardware.present) return;
    const bool prefill = row_.prefill->hardware.present;
    report(prefill ? "prefill.hardware" : "decode.hardware", rule::matrix_topology,
           (prefill ? row_.prefill : row_.decode)->hardware.where, "\"hardware\" is stated for one role only",
           "state it for prefill and decode, or for neither");
  }

  void check_offload() {
    if (!row_.kv_offloading) return;
    const bool dram = *row_.kv_offloading == KvOffloading::kDram;
    if (dram && !row_.kv_offload_backend)
      report("kv-offloading", rule::matrix_kv_offload, row_.kv_offloading.where,
             "\"kv-offloading: dram\" needs \"kv-offload-backend\"", "name the backend that moves the blocks");
    if (!dram && row_.kv_offload_backend)
      report("kv-offload-backend", rule::matrix_kv_offload, row_.kv_offload_backend->where,
             "\"kv-offload-backend\" without \"kv-offloading: dram\"");
  }

  Decoder& decoder_;
  const Row& row_;
};

void decode_row(Decoder& decoder, const yaml::Node& node) {
  Row row;
  decoder.read_object(node, row_shape(node), &row);
  if (node.is_map()) RowCheck(decoder, row).run();
}

}  // namespace

bool is_agentic_row(const yaml::Node& row) {
  return has(row, kAgentic);
}

bool is_multi_node_row(const yaml::Node& row) {
  return has(row, kMultiNode);
}

const Shape& row_shape() {
  static const Shape shape = either({{{kAgentic, kMultiNode}, &multi_agentic_row_shape()},
                                     {{kAgentic}, &single_agentic_row_shape()},
                                     {{kMultiNode}, &multi_fixed_row_shape()},
                                     {{}, &single_fixed_row_shape()}});
  return shape;
}

const ObjectShape& row_shape(const yaml::Node& row) {
  return Decoder::fields_of(row, row_shape());
}

size_t decode_rows(const DocumentPtr& document, diag::Diagnostics& out) {
  Decoder decoder(*document, out);
  const yaml::Node& root = document->root();
  if (!root.is_sequence()) {
    decode_row(decoder, root);
    return 1;
  }
  for (size_t i = 0; i < root.items.size(); ++i) {
    const Decoder::Scope scope(decoder, i, root.items[i].where);
    decode_row(decoder, root.items[i]);
  }
  return root.items.size();
}

}  // namespace sweep::schema
