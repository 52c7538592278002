#include "orchestrator/engine/embedded/cuda/collective.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

namespace sweep::engine::embedded::cuda {

namespace {

// NCCL's ABI as far as it is used (nccl.h); it has been the same in all of its versions 2.
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;
using Communicator = void*;

struct Functions {
  int (*get_version)(int* version) = nullptr;
  int (*init_all)(Communicator* communicators, int devices, const int* list) = nullptr;
  int (*get_async_error)(Communicator communicator, int* result) = nullptr;
  int (*abort)(Communicator communicator) = nullptr;
  int (*destroy)(Communicator communicator) = nullptr;
  int (*all_reduce)(const void* from, void* to, size_t count, int type, int operation, Communicator communicator,
                    cudaStream_t stream) = nullptr;
  const char* (*error_text)(int result) = nullptr;
};

void check_nccl(const Functions& nccl, int result, const char* what) {
  if (result != kSuccess) throw std::runtime_error(std::string(what) + " failed: " + nccl.error_text(result));
}

class NcclCollective final : public Collective {
 public:
  NcclCollective(const Functions& nccl, Communicator communicator) : nccl_(nccl), communicator_(communicator) {}
  ~NcclCollective() override {
    if (!is_aborted_.exchange(true)) nccl_.destroy(communicator_);
  }

  void sum(float* values, int64_t count, cudaStream_t stream) override {
    if (is_aborted_) throw std::runtime_error("a sum over the ranks was given up");
    check_nccl(nccl_,
               nccl_.all_reduce(values, values, static_cast<size_t>(count), kFloat32, kSum, communicator_, stream),
               "ncclAllReduce");
  }

  void check() const override {
    int result = kSuccess;
    if (is_aborted_) throw std::runtime_error("a sum over the ranks was given up");
    check_nccl(nccl_, nccl_.get_async_error(communicator_, &result), "ncclCommGetAsyncError");
    if (result != kInProgress) check_nccl(nccl_, result, "a sum over the ranks");
  }

  void abort() noexcept override {
    if (!is_aborted_.exchange(true)) nccl_.abort(communicator_);
  }

 private:
  Functions nccl_;
  Communicator communicator_;
  std::atomic<bool> is_aborted_{false};
};

template <class Function>
void resolve(void* library, const char* name, Function& function) {
  void* const symbol = ::dlsym(library, name);
  if (symbol == nullptr) throw std::runtime_error(std::string("libnccl.so.2 has no function ") + name);
  // dlsym yields an object pointer; POSIX guarantees that its bytes are those of the function pointer.
  static_assert(sizeof symbol == sizeof function);
  std::memcpy(&function, &symbol, sizeof symbol);
}

}  // namespace

struct CollectiveGroup::State {
  int64_t ranks = 1;
  Functions nccl;
  int version = 0;
};

CollectiveGroup::CollectiveGroup(int64_t ranks) : state_(std::make_unique<State>()) {
  state_->ranks = ranks;
  // Never unloaded: its own threads may outlive the communicators.
  void* const library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    throw std::runtime_error(std::string("several GPUs need NCCL, which cannot be loaded: ") +
                             (reason != nullptr ? reason : "unknown reason"));
  }
  Functions& nccl = state_->nccl;
  resolve(library, "ncclGetErrorString", nccl.error_text);
  resolve(library, "ncclGetVersion", nccl.get_version);
  resolve(library, "ncclCommInitAll", nccl.init_all);
  resolve(library, "ncclCommGetAsyncError", nccl.get_async_error);
  resolve(library, "ncclCommAbort", nccl.abort);
  resolve(library, "ncclCommDestroy", nccl.destroy);
  resolve(library, "ncclAllReduce", nccl.all_reduce);
  check_nccl(nccl, nccl.get_version(&state_->version), "ncclGetVersion");
}

CollectiveGroup::~CollectiveGroup() = default;

int64_t CollectiveGroup::version() const {
  return state_->version;
}

std::vector<std::unique_ptr<Collective>> CollectiveGroup::connect() const {
  std::vector<Communicator> communicators(static_cast<size_t>(state_->ranks), nullptr);
  std::vector<int> devices(communicators.size());
  std::iota(devices.begin(), devices.end(), 0);
  check_nccl(state_->nccl, state_->nccl.init_all(communicators.data(), static_cast<int>(state_->ranks), devices.data()),
             "ncclCommInitAll");
  std::vector<std::unique_ptr<Collective>> ends;
  for (Communicator communicator : communicators)
    ends.push_back(std::make_unique<NcclCollective>(state_->nccl, communicator));
  return ends;
}

}  // namespace sweep::engine::embedded::cuda
