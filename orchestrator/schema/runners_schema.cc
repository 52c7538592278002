// The runner file: which machines carry a label, and what a machine has (InferenceX, configs/runners.yaml).
#include <fmt/format.h>

#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

namespace {

const Shape& nodes_shape() {
  static const Shape shape = list(text(), 1);
  return shape;
}

const ObjectShape& hardware_shape() {
  static const ObjectShape shape{
      "a hardware entry",
      "What one node of a runner has.",
      {field<&RunnerHardware::available_cpu_dram_mib>("available-cpu-dram-mib", integer(1),
                                                      "host memory that KV offloading may use, in MiB"),
       field<&RunnerHardware::gpus_per_node>("gpus-per-node", integer(0), "GPUs of a node; 0 for hosts without",
                                             Need::kRequired)}};
  return shape;
}

}  // namespace

const ObjectShape& runners_shape() {
  static const ObjectShape shape{
      "the runner file",
      "Runner labels and the hardware behind them.",
      {unbound("labels", map(nodes_shape()), "label -> names of the machines that carry it", Need::kRequired),
       unbound("hardware", map(object(hardware_shape())), "runner or node label -> what one node has")}};
  return shape;
}

Runners decode_runners(const DocumentPtr& document, diag::Diagnostics& out) {
  Runners runners;
  runners.document = document;
  Decoder decoder(*document, out);
  const yaml::Node& root = document->root();
  decoder.read_object(root, runners_shape(), nullptr);
  for (const char* section : {"labels", "hardware"}) {
    const yaml::Node* names = root.find(section);
    if (names == nullptr) continue;
    const Decoder::Scope scope(decoder, section, names->where);
    for (const yaml::Entry& entry : names->entries) check_name_is_text(decoder, entry, "the name of a runner");
  }
  // Everything has been checked; what follows keeps what is well-formed.
  diag::Diagnostics reported_above;
  Decoder quiet(*document, reported_above);
  if (const yaml::Node* labels = root.find("labels")) {
    for (const yaml::Entry& entry : labels->entries) {
      RunnerLabel& label = runners.labels.emplace_back();
      label.name = entry.key;
      label.where = entry.key_where;
      quiet.read(entry.value, nodes_shape(), label.nodes);
    }
  }
  if (const yaml::Node* hardware = root.find("hardware")) {
    for (const yaml::Entry& entry : hardware->entries) {
      RunnerHardware& item = runners.hardware.emplace_back();
      item.name = entry.key;
      item.name_where = entry.key_where;
      item.where = entry.value.where;
      quiet.read_object(entry.value, hardware_shape(), &item);
    }
  }
  return runners;
}

}  // namespace sweep::schema
