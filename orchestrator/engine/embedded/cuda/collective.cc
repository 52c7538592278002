#include "orchestrator/engine/embedded/cuda/collective.h"

#include <dlfcn.h>

#include <cstring>
#include <stdexcept>
#include <string>

namespace sweep::engine::embedded::cuda {

namespace {

// NCCL's ABI as far as it is used (nccl.h); it has been the same in all of its versions 2.
constexpr int kSuccess = 0;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;
struct UniqueId {
  char bytes[128];
};
using Communicator = void*;

struct Functions {
  int (*get_version)(int* version) = nullptr;
  int (*get_unique_id)(UniqueId* id) = nullptr;
  int (*init_rank)(Communicator* communicator, int ranks, UniqueId id, int rank) = nullptr;
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
  ~NcclCollective() override { nccl_.destroy(communicator_); }

  void sum(float* values, int64_t count, cudaStream_t stream) override {
    check_nccl(nccl_,
               nccl_.all_reduce(values, values, static_cast<size_t>(count), kFloat32, kSum, communicator_, stream),
               "ncclAllReduce");
  }

 private:
  const Functions& nccl_;
  Communicator communicator_;
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
  UniqueId id = {};
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
  resolve(library, "ncclGetUniqueId", nccl.get_unique_id);
  resolve(library, "ncclCommInitRank", nccl.init_rank);
  resolve(library, "ncclCommDestroy", nccl.destroy);
  resolve(library, "ncclAllReduce", nccl.all_reduce);
  check_nccl(nccl, nccl.get_version(&state_->version), "ncclGetVersion");
  check_nccl(nccl, nccl.get_unique_id(&state_->id), "ncclGetUniqueId");
}

CollectiveGroup::~CollectiveGroup() = default;

int64_t CollectiveGroup::version() const {
  return state_->version;
}

std::unique_ptr<Collective> CollectiveGroup::join(int64_t rank) const {
  Communicator communicator = nullptr;
  check_nccl(state_->nccl,
             state_->nccl.init_rank(&communicator, static_cast<int>(state_->ranks), state_->id, static_cast<int>(rank)),
             "ncclCommInitRank");
  return std::make_unique<NcclCollective>(state_->nccl, communicator);
}

}  // namespace sweep::engine::embedded::cuda
