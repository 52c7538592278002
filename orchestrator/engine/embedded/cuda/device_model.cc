#include "orchestrator/engine/embedded/cuda/device_model.h"

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

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

// Owned by all threads that may still use them. What belongs to a group that failed is left as it is: tidying up may
// wait for what never ends.
struct Ranks {
  explicit Ranks(int64_t count) : all(static_cast<size_t>(count)), group(std::make_shared<RankGroup>(count)) {}
  ~Ranks() {
    if (!group->has_failed()) return;
    for (auto& rank : all) static_cast<void>(rank.release());
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::unique_ptr<Rank>& operator[](int64_t rank) { return all[static_cast<size_t>(rank)]; }

  std::vector<std::unique_ptr<Rank>> all;
  std::shared_ptr<RankGroup> group;
};

void use_device(int64_t rank) {
  check(cudaSetDevice(static_cast<int>(rank)), "cudaSetDevice");
}

class RankedModel final : public DeviceModel {
 public:
  explicit RankedModel(const DeviceModelOptions& options)
      : blocks_per_sequence_(Rank::blocks_per_sequence(options)),
        ranks_(std::make_shared<Ranks>(options.ranks)),
        threads_(ranks_->group, {.ranks = options.ranks,
                                 .begin = use_device,
                                 .failed =
                                     [ranks = ranks_](int64_t rank) {
                                       if ((*ranks)[rank]) (*ranks)[rank]->abandon();
                                     },
                                 .release =
                                     [ranks = ranks_](int64_t rank) {
                                       if ((*ranks)[rank]) (*ranks)[rank]->interrupt();
                                     }}) {
    if (options.ranks > 1) collectives_ = std::make_unique<CollectiveGroup>(options.ranks);
    // What can fail on one rank alone comes first, while none waits for another.
    run_all([&, ranks = ranks_](int64_t rank) { (*ranks)[rank] = std::make_unique<Rank>(options, rank); }, kAlone);
    if (!collectives_) return;
    auto ends = std::make_shared<std::vector<std::unique_ptr<Collective>>>(collectives_->connect());
    run_all([ranks = ranks_,
             ends](int64_t rank) { (*ranks)[rank]->join(std::move((*ends)[static_cast<size_t>(rank)]), ranks->group); },
            kTogether);
  }

  ~RankedModel() override {
    const std::string ignored =
        problem_of([&] { run_all([ranks = ranks_](int64_t rank) { (*ranks)[rank].reset(); }, kAlone); });
  }

  int64_t blocks_per_sequence() const override { return blocks_per_sequence_; }
  int64_t collective_version() const override { return collectives_ ? collectives_->version() : 0; }
  std::string device_names() const override {
    std::string names = first().device_name();
    for (size_t i = 1; i < ranks_->all.size(); ++i) names += ", " + ranks_->all[i]->device_name();
    return names;
  }

  std::string forward(const ForwardInput& input) override {
    if (ranks_->all.size() == 1) return of_first([&](Rank& rank) { rank.forward(input); });
    // A rank that does not come back keeps its input.
    auto own = std::make_shared<const ForwardInput>(input);
    return problem_of(
        [&] { run_all([ranks = ranks_, own](int64_t rank) { (*ranks)[rank]->forward(*own); }, kTogether); });
  }
  std::string logits(const std::vector<int64_t>& rows, std::vector<float>& logits) override {
    return of_first([&](Rank& rank) { rank.logits(rows, logits); });
  }
  std::string remember(int64_t row, int64_t slot) override {
    return of_first([&](Rank& rank) { rank.remember(row, slot); });
  }
  std::string draft(const DraftInput& input, std::vector<int32_t>& tokens, std::vector<float>& logits) override {
    return of_first([&](Rank& rank) { rank.draft(input, tokens, logits); });
  }
  StepTimes step_times() const override { return first().step_times(); }

 private:
  // Of work in which no rank waits for another: each comes back by itself, and uses what is the caller's.
  static constexpr RankThreads::Limits kAlone{.all = std::chrono::minutes(10),
                                              .after_failure = std::chrono::minutes(10)};
  static constexpr RankThreads::Limits kTogether{.all = 2 * Rank::kPassLimit};

  const Rank& first() const { return *ranks_->all.front(); }
  void run_all(RankThreads::Work work, const RankThreads::Limits& limits) { threads_.run(std::move(work), limits); }
  // In the caller's thread. Nothing that the first rank does alone waits for another one.
  std::string of_first(const std::function<void(Rank&)>& work) {
    return problem_of([&] {
      if (ranks_->group->has_failed()) throw std::runtime_error(ranks_->group->failure());
      use_device(0);
      work(*(*ranks_)[0]);
    });
  }

  int64_t blocks_per_sequence_;
  std::unique_ptr<CollectiveGroup> collectives_;
  std::shared_ptr<Ranks> ranks_;
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
