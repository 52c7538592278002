#include "kernels/gate/execute.h"

#include <algorithm>

#include "kernels/api/layout.h"

namespace flashmla::gate {
namespace {

template <typename Params>
Execution run_in_place(const Context& context, const Problem& problem, const Change& change) {
  Execution execution;
  execution.outputs = problem.make_outputs();
  Params params = params_into(problem, execution.outputs, Params{});
  size_t bytes = 0;
  execution.status = query_workspace(context, &params, &bytes);
  if (execution.status == FLASHMLA_OK) {
    Workspace workspace(bytes);
    params.workspace = workspace.data();
    params.workspace_bytes = bytes;
    change.apply(params);
    execution.status = decode(context, &params);
    execution.workspace_kept = workspace.guard_intact();
  }
  if (execution.status != FLASHMLA_OK) execution.message = context.failure(execution.status);
  return execution;
}

}  // namespace

Workspace::Workspace(size_t bytes)
    : bytes_(bytes), offset_(0), memory_(bytes + kWorkspaceAlignment + kWorkspaceGuardBytes, kWorkspacePoison) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  offset_ = (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
  std::fill(memory_.begin() + static_cast<ptrdiff_t>(offset_ + bytes_), memory_.end(), kWorkspaceGuard);
}

bool Workspace::guard_intact() const {
  return std::all_of(memory_.begin() + static_cast<ptrdiff_t>(offset_ + bytes_), memory_.end(),
                     [](uint8_t byte) { return byte == kWorkspaceGuard; });
}

Execution HostPlacement::run(const Context& context, const Change& change) {
  return dense_ ? run_in_place<Dense>(context, problem_, change) : run_in_place<Sparse>(context, problem_, change);
}

Execution execute(const Context& context, const Problem& problem, bool dense) {
  return HostPlacement(problem, dense).run(context);
}

}  // namespace flashmla::gate
