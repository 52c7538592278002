// Rules over the runner file by itself.
#include <fmt/format.h>

#include <set>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/runners.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace rule = diag::rule;

void check_runners(const Runners& runners, diag::Diagnostics& out) {
  if (runners.document == nullptr) return;
  std::vector<std::string_view> names;
  for (const RunnerLabel& label : runners.labels) {
    names.push_back(label.name);
    std::set<std::string_view> seen;
    for (size_t i = 0; i < label.nodes.size(); ++i) {
      const Text& node = label.nodes[i];
      if (node && !seen.insert(*node).second)
        out.add(finding(rule::runners_repeated_node, *runners.document, node.where,
                        fmt::format("labels.{}[{}]", label.name, i),
                        fmt::format("machine \"{}\" is listed twice under \"{}\"", *node, label.name), "remove one"));
    }
  }
  for (const RunnerHardware& hardware : runners.hardware) {
    if (runners.find_label(hardware.name) != nullptr) continue;
    const auto nearest = base::nearest(hardware.name, names);
    out.add(finding(rule::runners_unlabelled_hardware, *runners.document, hardware.name_where,
                    fmt::format("hardware.{}", hardware.name),
                    fmt::format("hardware of \"{}\", which is no label", hardware.name),
                    nearest ? fmt::format("did you mean \"{}\"?", *nearest) : "add the label, or remove the hardware"));
  }
}

}  // namespace sweep::schema
