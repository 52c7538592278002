#include "kernels/gate/checks.h"

namespace flashmla::gate {
namespace {

// The same shapes with other data: queries, records, indices and lengths.
Case with_other_data(Case one) {
  one.seed += 2;
  return one;
}

}  // namespace

void check_graph(const Case& one, DevicePlacement& placement, const Subjects& subjects, const Execution& eager,
                 int32_t replays, Cell& cell) {
  auto graph = placement.capture(subjects.candidate);
  if (!graph) return cell.fail("graph", "the call cannot be captured: " + graph.message());
  cell.launches = static_cast<int64_t>(graph->nodes());
  const Problem problem(one);
  auto replay = [&](const Problem& data, const Execution& expected, const char* what) {
    const Execution execution = placement.replay(*graph);
    ++cell.replays;
    if (execution.status != FLASHMLA_OK) {
      cell.fail("graph", execution.message);
    } else if (!same_bytes(execution.outputs, expected.outputs)) {
      cell.fail("graph", what + first_difference(one, data, expected.outputs, execution.outputs));
    } else if (!execution.workspace_kept) {
      cell.fail("graph", "a replay wrote behind the workspace");
    }
    return cell.passed();
  };
  while (cell.replays < replays) {
    if (!replay(problem, eager, "a replay differs: ")) return;
  }

  const Problem other(with_other_data(one));
  const device::Status loaded = placement.load(other);
  if (!loaded) return cell.fail("device", loaded.message());
  const Execution expected = placement.run(subjects.candidate);
  if (expected.status != FLASHMLA_OK) return cell.fail("status", "other data is refused: " + expected.message);
  replay(other, expected, "a replay on other data differs: ");
}

}  // namespace flashmla::gate
