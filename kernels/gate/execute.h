// Calls of a library on a problem, with exactly the workspace it asks for. execute() calls a library that works in this
// process's memory; DevicePlacement (device_placement.h) one that works on a device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/gate/calls.h"
#include "kernels/gate/library.h"
#include "kernels/gate/problem.h"

namespace flashmla::gate {

struct Execution {
  flashmla_status status = FLASHMLA_OK;
  std::string message;         // of a status that is not FLASHMLA_OK
  bool workspace_kept = true;  // nothing was written behind the workspace
  Outputs outputs;
};

// What is changed in the arguments of a valid call before it is made.
struct Change {
  std::function<void(Sparse&)> sparse;
  std::function<void(Dense&)> dense;

  void apply(Sparse& params) const {
    if (sparse) sparse(params);
  }
  void apply(Dense& params) const {
    if (dense) dense(params);
  }
};

// A problem in memory that a library can work in.
class Placement {
 public:
  Placement() = default;
  virtual ~Placement() = default;
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  // One call on fresh outputs full of guards, with a workspace full of NaN.
  virtual Execution run(const Context& context, const Change& change) = 0;
  Execution run(const Context& context) { return run(context, Change{}); }
};

// The problem where it is, in this process's memory.
class HostPlacement : public Placement {
 public:
  HostPlacement(const Problem& problem, bool dense) : problem_(problem), dense_(dense) {}
  using Placement::run;
  Execution run(const Context& context, const Change& change) override;

 private:
  const Problem& problem_;
  bool dense_;
};

Execution execute(const Context& context, const Problem& problem, bool dense);

constexpr uint8_t kWorkspacePoison = 0xff;  // NaN in every format
constexpr uint8_t kWorkspaceGuard = 0xa5;
constexpr size_t kWorkspaceGuardBytes = 256;

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
