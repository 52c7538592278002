#include "orchestrator/schema/matrix_parts.h"

#include "orchestrator/diag/rules/matrix.h"

namespace sweep::schema {

namespace {

bool is_component_version(std::string_view text) {
  return !text.empty() && !text.starts_with("image:");
}
const TextForm kComponentVersion{"a version that does not start with \"image:\"", is_component_version,
                                 "^(?!image:)[\\s\\S]+$"};

}  // namespace

const ObjectShape& router_shape() {
  static const ObjectShape shape{
      "a component",
      "A router, with the version that takes part in the measurement.",
      {field<&Component::name>("name", text(), "name of the component", Need::kRequired),
       field<&Component::version>("version", text(&kComponentVersion), "its version, in quotes", Need::kRequired)}};
  return shape;
}

const ObjectShape& offload_backend_shape() {
  static const ObjectShape shape{
      "a KV-offload backend",
      "What moves KV blocks to host memory.",
      {field<&Component::name>("name", text(), "name of the backend", Need::kRequired),
       field<&Component::version>("version", text(&kComponentVersion).or_null(), "its version, in quotes")}};
  return shape;
}

const ObjectShape& acceptance_shape() {
  static const ObjectShape shape{
      "an acceptance setting",
      "Where the acceptance length of speculative decoding comes from.",
      {field<&Acceptance::source>("source", choice_of<AcceptanceSource>(),
                                  "golden (committed curve), measured (no control), or explicit (for research)",
                                  Need::kRequired),
       field<&Acceptance::length>("length", number(1).ranged_by_rule(),
                                  "mean tokens committed per verification step, the target's own token included; at "
                                  "most the draft tokens + 1")},
      {{FieldRule::Kind::kNeeds, diag::rule::acceptance_length_missing, {{{"length"}}}, {"source", "explicit"}},
       {FieldRule::Kind::kNeeds, diag::rule::acceptance_length_not_explicit, {{{"source", "explicit"}}}, {"length"}}}};
  return shape;
}

const ObjectShape& worker_shape() {
  static const ObjectShape shape{
      "a worker group",
      "Workers of one role in a multi-node deployment.",
      {field<&Worker::num_worker>("num-worker", integer(0, kMostRanks), "number of workers", Need::kRequired),
       field<&Worker::tp>("tp", integer(1, kMostRanks), "tensor-parallel size of a worker", Need::kRequired),
       field<&Worker::pp>("pp", integer(1, kMostRanks), "pipeline-parallel size").by_default("1"),
       field<&Worker::dcp_size>("dcp-size", integer(1, kMostRanks), "decode-context-parallel size, divides tp")
           .by_default("1"),
       field<&Worker::pcp_size>("pcp-size", integer(1, kMostRanks), "prefill-context-parallel size").by_default("1"),
       field<&Worker::ep>("ep", integer(1, kMostRanks), "expert-parallel size", Need::kRequired),
       field<&Worker::dp_attn>("dp-attn", boolean(), "data-parallel attention", Need::kRequired),
       field<&Worker::hardware>("hardware", text().or_null(), "GPU type, where the roles run on different ones"),
       field<&Worker::additional_settings>("additional-settings", list(any_text()).or_null(),
                                           "KEY=VALUE settings for the launcher")}};
  return shape;
}

}  // namespace sweep::schema
