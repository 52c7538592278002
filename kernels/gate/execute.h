// One call of a library on a problem, with exactly the workspace it asks for.
#pragma once

#include <string>

#include "kernels/gate/library.h"
#include "kernels/gate/problem.h"

namespace flashmla::gate {

struct Execution {
  flashmla_status status = FLASHMLA_OK;
  std::string message;         // of a status that is not FLASHMLA_OK
  bool workspace_kept = true;  // nothing was written behind the workspace
  Outputs outputs;
};

Execution execute(const Context& context, const Problem& problem, bool dense);

// Memory of `bytes` that is 64-byte aligned and starts as NaN, with guard bytes behind it.
class Workspace {
 public:
  explicit Workspace(size_t bytes);
  void* data() { return memory_.data() + offset_; }
  size_t bytes() const { return bytes_; }
  bool guard_intact() const;

 private:
  size_t bytes_;
  size_t offset_;
  std::vector<uint8_t> memory_;
};

}  // namespace flashmla::gate
