// A problem in the memory of a device: inputs copied there, each into an allocation of exactly its size; outputs and
// workspace with the same guards and poison as on the host, checked in what is copied back.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/device/driver.h"
#include "kernels/gate/accelerator.h"
#include "kernels/gate/execute.h"

namespace flashmla::gate {

class DevicePlacement : public Placement {
 public:
  static device::Result<std::unique_ptr<DevicePlacement>> create(const Accelerator& accelerator, const Problem& problem,
                                                                 bool dense);

  using Placement::run;
  // A device that fails gives FLASHMLA_DEVICE_ERROR with the driver's message.
  Execution run(const Context& context, const Change& change) override;

  // Replaces the contents of the inputs. The regions of `problem` must be as large as those now there.
  device::Status load(const Problem& problem);

  // Records one call: what it does to the stream is kept, what else it does (allocate, wait) fails. The graph works on
  // the memory of this placement.
  device::Result<device::Graph> capture(const Context& context);
  Execution replay(device::Graph& graph);

 private:
  DevicePlacement(const Accelerator& accelerator, const Problem& problem, bool dense);
  device::Status allocate();
  device::Status make_workspace(size_t bytes);
  device::Status poison();
  device::Status read_back(Execution& execution);

  template <typename Params>
  Params device_params();
  void move_inputs(Sparse& params) const;
  void move_inputs(Dense& params) const;
  template <typename T>
  void move(T*& pointer) const;
  template <typename Params>
  Execution run_as(const Context& context, const Change& change);
  template <typename Params>
  device::Result<device::Graph> capture_as(const Context& context);

  struct Moved {
    Region host;
    const device::Buffer* buffer;
  };

  const Accelerator& accelerator_;
  const Problem& problem_;
  bool dense_;
  Outputs host_outputs_;  // only for its addresses and sizes
  std::vector<device::Buffer> inputs_;
  device::Buffer out_, lse_, workspace_;
  size_t workspace_bytes_ = 0;
  std::vector<Moved> moved_;
};

}  // namespace flashmla::gate
