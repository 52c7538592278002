// Sums over all ranks, through NCCL. NCCL is loaded when there is more than one rank: a host with one GPU needs none.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace sweep::engine::embedded::cuda {

// One rank's end of the group. Used by the rank's thread.
class Collective {
 public:
  virtual ~Collective() = default;
  // values[0 .. count) become their sums over all ranks; every rank gets the same bytes.
  virtual void sum(float* values, int64_t count, cudaStream_t stream) = 0;
  // Throws std::runtime_error if a sum that was launched has failed meanwhile. Does not wait.
  virtual void check() const = 0;
  // Ends the sums that wait for other ranks; nothing can be summed afterwards. From any thread, and more than once.
  // Does not return as long as there are CUDA graphs that hold sums.
  virtual void abort() noexcept = 0;
};

class CollectiveGroup {
 public:
  // Loads NCCL. Throws std::runtime_error with the reason if that fails.
  explicit CollectiveGroup(int64_t ranks);
  ~CollectiveGroup();
  CollectiveGroup(const CollectiveGroup&) = delete;
  CollectiveGroup& operator=(const CollectiveGroup&) = delete;

  int64_t version() const;  // as NCCL numbers itself: 22803 is 2.28.3

  // The end of each rank, on the device of its number. All are made by one call, in which a rank that fails cannot
  // leave another one waiting. Throws std::runtime_error.
  std::vector<std::unique_ptr<Collective>> connect() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sweep::engine::embedded::cuda
