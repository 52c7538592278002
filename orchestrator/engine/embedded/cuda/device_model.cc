#include "orchestrator/engine/embedded/cuda/device_model.h"

#include <exception>
#include <functional>

#include "orchestrator/engine/embedded/cuda/collective.h"
#include "orchestrator/engine/embedded/cuda/rank.h"
#include "orchestrator/engine/embedded/cuda/rank_threads.h"

namespace sweep::engine::embedded::cuda {

namespace {

std::string problem_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& exception) {
    return exception.what();
  }
  return {};
}

class RankedModel final : public DeviceModel {
 public:
  explicit RankedModel(const DeviceModelOptions& options)
      : blocks_per_sequence_(Rank::blocks_per_sequence(options)), threads_(options.ranks) {
    if (options.ranks > 1) group_ = std::make_unique<CollectiveGroup>(options.ranks);
    ranks_.resize(static_cast<size_t>(options.ranks));
    threads_.run([&](int64_t rank) {
      check(cudaSetDevice(static_cast<int>(rank)), "cudaSetDevice");
      auto collective = group_ ? group_->join(rank) : nullptr;
      ranks_[static_cast<size_t>(rank)] = std::make_unique<Rank>(options, rank, std::move(collective));
    });
  }

  ~RankedModel() override {
    const std::string ignored =
        problem_of([&] { threads_.run([&](int64_t rank) { ranks_[static_cast<size_t>(rank)].reset(); }); });
  }

  int64_t blocks_per_sequence() const override { return blocks_per_sequence_; }
  int64_t collective_version() const override { return group_ ? group_->version() : 0; }
  std::string device_names() const override {
    std::string names = ranks_[0]->device_name();
    for (size_t i = 1; i < ranks_.size(); ++i) names += ", " + ranks_[i]->device_name();
    return names;
  }

  std::string forward(const ForwardInput& input) override {
    return problem_of([&] { threads_.run([&](int64_t rank) { ranks_[static_cast<size_t>(rank)]->forward(input); }); });
  }
  std::string logits(const std::vector<int64_t>& rows, std::vector<float>& logits) override {
    return problem_of([&] { threads_.run_first([&] { ranks_[0]->logits(rows, logits); }); });
  }
  std::string remember(int64_t row, int64_t slot) override {
    return problem_of([&] { threads_.run_first([&] { ranks_[0]->remember(row, slot); }); });
  }
  std::string draft(const DraftInput& input, std::vector<int32_t>& tokens, std::vector<float>& logits) override {
    return problem_of([&] { threads_.run_first([&] { ranks_[0]->draft(input, tokens, logits); }); });
  }
  StepTimes step_times() const override { return ranks_[0]->step_times(); }

 private:
  int64_t blocks_per_sequence_;
  std::unique_ptr<CollectiveGroup> group_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  RankThreads threads_;  // last: it ends first
};

DeviceModel* make(const DeviceModelOptions& options, std::string& problem) {
  DeviceModel* model = nullptr;
  problem = problem_of([&] {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    if (devices < options.ranks) {
      throw std::runtime_error("the model is to be split among " + std::to_string(options.ranks) +
                               " GPUs, CUDA shows " + std::to_string(devices));
    }
    model = new RankedModel(options);
  });
  return model;
}

}  // namespace

}  // namespace sweep::engine::embedded::cuda

extern "C" __attribute__((visibility("default"))) sweep::engine::embedded::cuda::DeviceModel*
sweepctl_embedded_make_device_model(const sweep::engine::embedded::cuda::DeviceModelOptions& options,
                                    std::string& problem) {
  return sweep::engine::embedded::cuda::make(options, problem);
}
