#include "kernels/gate/execute.h"

#include <algorithm>

#include "kernels/api/layout.h"

namespace flashmla::gate {
namespace {

constexpr uint8_t kGuardByte = 0xa5;
constexpr size_t kGuardBytes = 256;

}  // namespace

Workspace::Workspace(size_t bytes)
    : bytes_(bytes), offset_(0), memory_(bytes + kWorkspaceAlignment + kGuardBytes, uint8_t{0xff}) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  offset_ = (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
  std::fill(memory_.begin() + static_cast<ptrdiff_t>(offset_ + bytes_), memory_.end(), kGuardByte);
}

bool Workspace::guard_intact() const {
  return std::all_of(memory_.begin() + static_cast<ptrdiff_t>(offset_ + bytes_), memory_.end(),
                     [](uint8_t byte) { return byte == kGuardByte; });
}

Execution execute(const Context& context, const Problem& problem, bool dense) {
  const Functions& f = context.functions();
  Execution execution;
  execution.outputs = problem.make_outputs();
  flashmla_sparse_decode_params sparse = problem.sparse_into(execution.outputs);
  flashmla_dense_decode_params flat = problem.dense_into(execution.outputs);
  size_t bytes = 0;
  execution.status = dense ? f.dense_decode_workspace(context.get(), &flat, &bytes)
                           : f.sparse_decode_workspace(context.get(), &sparse, &bytes);
  if (execution.status == FLASHMLA_OK) {
    Workspace workspace(bytes);
    sparse.workspace = flat.workspace = workspace.data();
    sparse.workspace_bytes = flat.workspace_bytes = bytes;
    execution.status = dense ? f.dense_decode(context.get(), &flat) : f.sparse_decode(context.get(), &sparse);
    execution.workspace_kept = workspace.guard_intact();
  }
  if (execution.status != FLASHMLA_OK) {
    execution.message = std::string(f.status_text(execution.status)) + ": " + f.error_message(context.get());
  }
  return execution;
}

}  // namespace flashmla::gate
