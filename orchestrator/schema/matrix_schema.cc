// The master-config format: what a matrix entry can say. The peer's fields (InferenceX, configs/CONFIGS.md) and ours.
#include <array>
#include <utility>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/diag/rules/schema.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/schema/matrix_parts.h"

namespace sweep::schema {

namespace {

using std::vector;
namespace rule = diag::rule;
using Kind = FieldRule::Kind;

vector<Field> join(std::initializer_list<vector<Field>> groups) {
  vector<Field> all;
  for (const vector<Field>& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

const TextForm kEntryName{"a name without \"*\"",
                          [](std::string_view text) { return text.find('*') == std::string_view::npos; }, "^[^*]*$",
                          "\"*\" is the wildcard of changelog keys and of the command line"};

vector<Field> concurrency_fields() {
  return {field<&Point::conc_start>("conc-start", integer(1, kMostConcurrency).or_null(),
                                    "first concurrency; doubles up to conc-end"),
          field<&Point::conc_end>("conc-end", integer(1, kMostConcurrency).or_null(), "last concurrency"),
          field<&Point::conc_list>("conc-list", list(integer(1, kMostConcurrency)).or_null(),
                                   "the concurrencies, instead of a range")};
}

FieldRule concurrency_rule() {
  return {Kind::kExactlyOne, rule::matrix_concurrency, {{{"conc-list"}}, {{"conc-start"}, {"conc-end"}}}};
}

vector<Field> speculation_fields() {
  return {field<&Point::spec_decoding>("spec-decoding", choice_of<SpecDecoding>(), "speculative decoding method")
              .by_default("none"),
          field<&Point::num_draft_tokens>("num-draft-tokens", integer(1, kMostRanks),
                                          "draft tokens per verification step; a step verifies one more"),
          field<&Point::acceptance>("acceptance", object(acceptance_shape()),
                                    "acceptance control of this point, instead of the entry's"),
          field<&Point::recipe>("recipe", text(), "recipe of this point, instead of the entry's")};
}

vector<Field> rank_fields() {
  return {field<&Point::pp>("pp", integer(1, kMostRanks), "pipeline-parallel size").by_default("1"),
          field<&Point::dcp_size>("dcp-size", integer(1, kMostRanks), "decode-context-parallel size, divides tp")
              .by_default("1"),
          field<&Point::pcp_size>("pcp-size", integer(1, kMostRanks), "prefill-context-parallel size").by_default("1")};
}

vector<Field> router_field() {
  return {field<&Point::router>("router", object(router_shape()).or_null(), "router in front of the workers")};
}

vector<Field> transfer_field() {
  return {
      field<&Point::kv_p2p_transfer>("kv-p2p-transfer", text().or_null(), "how KV blocks move from prefill to decode")};
}

vector<Field> worker_fields(Need need) {
  const auto shape = [&] {
    return need == Need::kRequired ? object(worker_shape()) : object(worker_shape()).or_null();
  };
  return {field<&Point::prefill>("prefill", shape(), "workers that prefill", need),
          field<&Point::decode>("decode", shape(), "workers that decode", need)};
}

const ObjectShape& single_fixed_point_shape() {
  static const ObjectShape shape{
      "a single-node search-space entry",
      "A topology on one node and its concurrencies.",
      join({{field<&Point::tp>("tp", integer(1, kMostRanks), "tensor-parallel size", Need::kRequired)},
            rank_fields(),
            {field<&Point::ep>("ep", integer(1, kMostRanks).or_null(), "expert-parallel size").by_default("1"),
             field<&Point::dp_attn>("dp-attn", boolean().or_null(), "data-parallel attention").by_default("false")},
            speculation_fields(),
            router_field(),
            concurrency_fields()}),
      {concurrency_rule()}};
  return shape;
}

const ObjectShape& multi_fixed_point_shape() {
  static const ObjectShape shape{"a multi-node search-space entry",
                                 "Worker groups on several nodes and their concurrencies.",
                                 join({worker_fields(Need::kRequired), speculation_fields(), router_field(),
                                       transfer_field(), concurrency_fields()}),
                                 {concurrency_rule()}};
  return shape;
}

const ObjectShape& agentic_point_shape() {
  static const ObjectShape shape{
      "an agentic search-space entry",
      "A topology that serves recorded agent sessions.",
      join({{field<&Point::tp>("tp", integer(1, kMostRanks).or_null(), "tensor-parallel size of a single-node point")},
            rank_fields(),
            {field<&Point::ep>("ep", integer(1, kMostRanks).or_null(), "expert-parallel size").by_default("1"),
             field<&Point::dp_attn>("dp-attn", boolean().or_null(), "data-parallel attention").by_default("false")},
            speculation_fields(),
            worker_fields(Need::kOptional),
            {field<&Point::kv_offloading>("kv-offloading", choice_of<KvOffloading>().or_null(),
                                          "where KV blocks go that do not fit on the GPU"),
             field<&Point::kv_offload_backend>("kv-offload-backend", object(offload_backend_shape()).or_null(),
                                               "what moves them")},
            router_field(),
            transfer_field(),
            concurrency_fields()}),
      {concurrency_rule(),
       {Kind::kExactlyOne, rule::matrix_topology, {{{"tp"}}, {{"prefill"}, {"decode"}}}},
       {Kind::kExcludes, rule::matrix_topology, {{{"pp"}}, {{"dcp-size"}}, {{"pcp-size"}}}, {"prefill"}},
       {Kind::kNeeds, rule::matrix_kv_offload, {{{"kv-offloading"}}}, {"tp"}},
       {Kind::kNeeds, rule::matrix_kv_offload, {{{"kv-offload-backend"}}}, {"kv-offloading", "dram"}},
       {Kind::kNeeds, rule::matrix_kv_offload, {{{"kv-offloading", "dram"}}}, {"kv-offload-backend"}}}};
  return shape;
}

ObjectShape fixed_shape(std::string_view name, const ObjectShape& point) {
  return {name,
          "Requests of one input and one output length.",
          {field<&FixedSeqLen::isl>("isl", integer(1, kMostTokens), "prompt tokens of a request", Need::kRequired),
           field<&FixedSeqLen::osl>("osl", integer(1, kMostTokens), "output tokens of a request", Need::kRequired),
           field<&FixedSeqLen::search_space>("search-space", list(object(point)), "topologies and concurrencies",
                                             Need::kRequired)}};
}

const ObjectShape& agentic_shape() {
  static const ObjectShape shape{
      "an agentic-coding block",
      "Recorded agent sessions replayed against a server.",
      {field<&AgenticCoding::dram_utilization>("dram-utilization", positive_number(1).or_null(),
                                               "share of the host memory that KV offloading may use"),
       field<&AgenticCoding::search_space>("search-space", list(object(agentic_point_shape())),
                                           "topologies and concurrencies", Need::kRequired)}};
  return shape;
}

ObjectShape scenarios_shape(std::string_view name, const ObjectShape& fixed) {
  return {name,
          "What is measured.",
          {field<&Scenarios::fixed_seq_len>("fixed-seq-len", list(object(fixed)).or_null(),
                                            "blocks of fixed input and output lengths"),
           field<&Scenarios::agentic_coding>("agentic-coding", list(object(agentic_shape())).or_null(),
                                             "blocks of recorded agent sessions")},
          {{Kind::kAtLeastOne, rule::matrix_no_scenario, {{{"fixed-seq-len"}}, {{"agentic-coding"}}}}}};
}

vector<Field> identity_fields() {
  return {field<&MatrixEntry::image>("image", any_text(),
                                     "container image, pinned by digest where one is known; \"none\" runs on the host",
                                     Need::kRequired),
          field<&MatrixEntry::model>("model", text(), "model repository", Need::kRequired),
          field<&MatrixEntry::model_prefix>("model-prefix", text(), "short name of the model", Need::kRequired),
          field<&MatrixEntry::precision>("precision", text(), "number format of the weights: fp4, fp8, bf16",
                                         Need::kRequired),
          field<&MatrixEntry::framework>("framework", text(), "engine: sglang, vllm, trt, atom, embedded, ...",
                                         Need::kRequired),
          field<&MatrixEntry::runner>("runner", text(), "label of the runners that can serve it", Need::kRequired)};
}

vector<Field> policy_fields() {
  return {
      field<&MatrixEntry::revision>("revision", text(&kCommitForm), "commit of the model repository, 40 hex digits"),
      field<&MatrixEntry::recipe>("recipe", text(),
                                  "recipe file, relative to the checkout, with an optional \":variant\""),
      field<&MatrixEntry::research_only>("research-only", boolean(),
                                         "true for anything that departs from the model as shipped")
          .by_default("false"),
      field<&MatrixEntry::authorization>("authorization", text(), "who authorised what, for research-only entries"),
      field<&MatrixEntry::deviations>("deviations", list(text()), "every departure from the model as shipped"),
      field<&MatrixEntry::num_draft_tokens>("num-draft-tokens", integer(1, kMostRanks),
                                            "draft tokens of all points of the entry"),
      field<&MatrixEntry::acceptance>("acceptance", object(acceptance_shape()), "acceptance control of all points"),
      field<&MatrixEntry::exact_lengths>("exact-lengths", boolean(), "every request has exactly isl and osl tokens")
          .by_default("true"),
      field<&MatrixEntry::status>("status", choice_of<Status>(), "in-progress entries are planned, never dispatched")
          .by_default("ready")};
}

vector<Field> router_and_multinode() {
  return {field<&MatrixEntry::router>("router", object(router_shape()).or_null(), "router of all points"),
          field<&MatrixEntry::multinode>("multinode", boolean(), "whether points span several nodes", Need::kRequired)};
}

vector<FieldRule> entry_rules() {
  return {{Kind::kNeeds, rule::research_not_authorised, {{{"authorization"}}}, {"research-only", "true"}},
          {Kind::kNeeds, rule::research_deviations_missing, {{{"deviations"}}}, {"research-only", "true"}},
          {Kind::kNeeds, rule::research_not_declared, {{{"research-only", "true"}}}, {"deviations"}}};
}

vector<FieldRule> single_node_rules() {
  vector<FieldRule> rules = entry_rules();
  rules.push_back({Kind::kExcludes, rule::matrix_topology, {{{"disagg", "true"}}}});
  return rules;
}

}  // namespace

const ObjectShape& single_node_entry_shape() {
  static const ObjectShape fixed = fixed_shape("a single-node fixed-seq-len block", single_fixed_point_shape());
  static const ObjectShape scenarios = scenarios_shape("the scenarios of a single-node entry", fixed);
  static const ObjectShape shape{
      "a single-node matrix entry", "A model on one node, with the points to measure.",
      join({identity_fields(),
            router_and_multinode(),
            {field<&MatrixEntry::disagg>("disagg", boolean(), "false: prefill and decode share the workers")
                 .by_default("false"),
             field<&MatrixEntry::scenarios>("scenarios", object(scenarios), "what is measured", Need::kRequired)},
            policy_fields()}),
      single_node_rules()};
  return shape;
}

const ObjectShape& multi_node_entry_shape() {
  static const ObjectShape fixed = fixed_shape("a multi-node fixed-seq-len block", multi_fixed_point_shape());
  static const ObjectShape scenarios = scenarios_shape("the scenarios of a multi-node entry", fixed);
  static const ObjectShape shape{
      "a multi-node matrix entry", "A model on several nodes, with the points to measure.",
      join({identity_fields(),
            router_and_multinode(),
            {field<&MatrixEntry::disagg>("disagg", boolean(), "true: prefill and decode have workers of their own")
                 .by_default("false"),
             field<&MatrixEntry::kv_p2p_transfer>("kv-p2p-transfer", text().or_null(),
                                                  "how KV blocks move from prefill to decode"),
             field<&MatrixEntry::scenarios>("scenarios", object(scenarios), "what is measured", Need::kRequired)},
            policy_fields()}),
      entry_rules()};
  return shape;
}

const Shape& matrix_file_shape() {
  static const Shape shape =
      map(either({{{{{"multinode", "true"}}}, &multi_node_entry_shape()}, {{}, &single_node_entry_shape()}}))
          .named_by(kEntryName);
  return shape;
}

std::vector<MatrixEntry> decode_matrix(const DocumentPtr& document, diag::Diagnostics& out) {
  std::vector<MatrixEntry> entries;
  Decoder decoder(*document, out);
  const yaml::Node& root = document->root();
  if (!root.is_map()) {
    decoder.report(rule::schema_wrong_type, root.where,
                   "a matrix file must be a mapping of entries, found " + yaml::describe(root));
    return entries;
  }
  entries.reserve(root.entries.size());
  for (const yaml::Entry& item : root.entries) {
    const Decoder::Scope scope(decoder, item.key, item.key_where);
    if (!kEntryName.matches(item.key))
      decoder.report(rule::matrix_entry_name, item.key_where, "entry name \"" + item.key + "\" contains \"*\"",
                     std::string(kEntryName.help));
    check_name_is_text(decoder, item, "the name of an entry");
    MatrixEntry& entry = entries.emplace_back();
    entry.key = item.key;
    entry.key_where = item.key_where;
    entry.where = item.value.where;
    entry.document = document;
    entry.source = &item.value;
    decoder.read_object(item.value, Decoder::fields_of(item.value, *matrix_file_shape().item), &entry);
  }
  return entries;
}

}  // namespace sweep::schema
