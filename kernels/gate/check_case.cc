#include <algorithm>

#include "kernels/api/layout.h"
#include "kernels/gate/checks.h"
#include "kernels/gate/execute.h"
#include "kernels/gate/problem.h"
#include "kernels/gate/text.h"

namespace flashmla::gate {
namespace {

void check_accuracy(const Comparison& candidate, const Comparison& baseline, Cell& cell) {
  Errors& errors = cell.errors;
  errors = {candidate.output, candidate.lse, baseline.output, baseline.lse, candidate.lse_floor};
  if (!candidate.worst.empty()) cell.fail("oracle", candidate.worst);
  auto compare_means = [&](const char* of, double mean, double most) {
    if (mean <= most) return;
    cell.fail("mean-error", text("mean error of the %s is %.6g, the padded baseline has %.6g", of, mean, most));
  };
  compare_means("output", errors.output.mean(), errors.baseline_output.mean());
  compare_means("LSE", errors.lse.mean(), errors.baseline_lse.mean());
}

// A call with an index outside the pool, on a library that promises to refuse it.
void check_refusal(const Execution& execution, const Problem& problem, Cell& cell) {
  if (execution.status != FLASHMLA_INVALID_ARGUMENT) {
    cell.fail("refusal", "an index outside the pool is not refused");
  } else if (!same_bytes(execution.outputs, problem.make_outputs())) {
    cell.fail("refusal", "the outputs were written");
  }
}

void check_repeats(const Case& one, const Problem& problem, Placement& placement, const Context& candidate,
                   const Execution& first, int32_t repeats, Cell& cell) {
  for (cell.repeats = 0; cell.repeats < repeats;) {
    const Execution again = placement.run(candidate);
    ++cell.repeats;
    if (again.status != FLASHMLA_OK) return cell.fail("status", "a further run is refused: " + again.message);
    if (same_bytes(first.outputs, again.outputs)) continue;
    const char* which = cell.repeats == 1 ? "a second run differs: " : "a further run differs: ";
    return cell.fail("repeat", which + first_difference(one, problem, first.outputs, again.outputs));
  }
}

Stored stored_as(const Case& one) {
  if (one.dense) return Stored::kBf16;
  return one.format == FLASHMLA_KV_V32_656 ? Stored::kFp32Scales : Stored::kExactScales;
}

void check_runs(const Case& one, const Problem& problem, Placement& placement, const Subjects& subjects,
                const Effort& effort, Cell& cell) {
  const bool on_device = subjects.accelerator != nullptr;
  const Execution first = placement.run(subjects.candidate);
  if (one.invalid == Invalid::kOutside && !on_device) return check_refusal(first, problem, cell);
  const Execution baseline = placement.run(subjects.baseline);
  if (first.status != FLASHMLA_OK) cell.fail("status", "the candidate refuses a valid call: " + first.message);
  if (baseline.status != FLASHMLA_OK) cell.fail("status", "the baseline refuses a valid call: " + baseline.message);
  if (!cell.passed()) return;

  const Tolerance tolerance = tolerance_of(subjects.arch, stored_as(one));
  const Reference reference = compute_reference(one, problem, effort.oracle_threads);
  check_accuracy(compare(one, problem, first.outputs, reference, tolerance),
                 compare(one, problem, baseline.outputs, reference, tolerance), cell);
  if (!problem.guards_intact(first.outputs)) cell.fail("guards", "an output was written outside the addressed rows");
  if (!first.workspace_kept) cell.fail("guards", "memory behind the workspace was written");
  if (!same_bytes(first.outputs, baseline.outputs)) {
    cell.fail("padded",
              "differs from the padded baseline: " + first_difference(one, problem, first.outputs, baseline.outputs));
  }
  const int32_t repeats = effort.repeats > 0 ? effort.repeats : repeats_of(one, on_device);
  check_repeats(one, problem, placement, subjects.candidate, first, repeats, cell);
  if (on_device) {
    constexpr int32_t kReplays = 5;
    return check_graph(one, static_cast<DevicePlacement&>(placement), subjects, first, std::min(repeats, kReplays),
                       cell);
  }
  const Execution single = placement.run(*subjects.candidate_single);
  if (!same_bytes(first.outputs, single.outputs)) {
    cell.fail("threads",
              "a run with one thread differs: " + first_difference(one, problem, first.outputs, single.outputs));
  }
}

}  // namespace

void Errors::add(const Errors& other) {
  output.add(other.output);
  lse.add(other.lse);
  baseline_output.add(other.baseline_output);
  baseline_lse.add(other.baseline_lse);
  lse_floor.add(other.lse_floor);
}

int32_t repeats_of(const Case& one, bool on_device) {
  constexpr int64_t kMuch = 256 * 1024;
  if (!on_device) return 1;
  const int64_t bytes = int64_t{one.batch} * one.s_q * one.num_heads * kValueDims * int64_t{sizeof(uint16_t)};
  return bytes > kMuch ? 10 : 100;
}

Cell check_case(const Case& one, const Subjects& subjects, const Effort& effort) {
  Cell cell;
  cell.name = one.name;
  cell.shape = one.shape();
  cell.group = one.group();
  cell.ordinary = one.ordinary();
  cell.published = one.published;
  const Problem problem(one);
  if (subjects.accelerator == nullptr) {
    HostPlacement placement(problem, one.dense);
    check_runs(one, problem, placement, subjects, effort, cell);
    return cell;
  }
  auto placement = DevicePlacement::create(*subjects.accelerator, problem, one.dense);
  if (!placement) {
    cell.fail("device", placement.message());
    return cell;
  }
  check_runs(one, problem, **placement, subjects, effort, cell);
  return cell;
}

}  // namespace flashmla::gate
