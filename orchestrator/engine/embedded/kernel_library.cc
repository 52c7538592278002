#include "orchestrator/engine/embedded/kernel_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "orchestrator/diag/rules/embedded.h"
#include "orchestrator/digest/sha256.h"

namespace sweep::engine::embedded {

namespace {

constexpr size_t kWorkspaceAlignment = 64;

bool is_cuda_build(const flashmla_build& build) {
  return std::string_view(build.arch) != "cpu";
}

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kWorkspaceAlignment}); }
};

}  // namespace

struct KernelLibrary::State {
  std::string path;
  std::string sha256;
  void* handle = nullptr;
  const flashmla_build* build = nullptr;
  flashmla_context* context = nullptr;

  decltype(&flashmla_build_info) build_info = nullptr;
  cuda::KernelFunctions functions;

  std::unique_ptr<std::byte, AlignedDelete> workspace;
  size_t workspace_bytes = 0;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (context != nullptr) functions.context_destroy(context);
    if (handle != nullptr) ::dlclose(handle);
  }

  template <class Function>
  bool resolve(const char* name, Function& function) {
    void* const symbol = ::dlsym(handle, name);
    // dlsym yields an object pointer; POSIX guarantees that its bytes are those of the function pointer.
    static_assert(sizeof symbol == sizeof function);
    std::memcpy(&function, &symbol, sizeof symbol);
    return symbol != nullptr;
  }

  // The name of the first symbol that is missing, or null.
  const char* resolve_all() {
    if (!resolve("flashmla_build_info", build_info)) return "flashmla_build_info";
    if (!resolve("flashmla_context_create", functions.context_create)) return "flashmla_context_create";
    if (!resolve("flashmla_context_destroy", functions.context_destroy)) return "flashmla_context_destroy";
    if (!resolve("flashmla_sparse_decode_workspace", functions.workspace_size))
      return "flashmla_sparse_decode_workspace";
    if (!resolve("flashmla_sparse_decode", functions.decode)) return "flashmla_sparse_decode";
    if (!resolve("flashmla_error_message", functions.error_message)) return "flashmla_error_message";
    if (!resolve("flashmla_status_text", functions.status_text)) return "flashmla_status_text";
    return nullptr;
  }

  diag::Result<diag::Done> failure(const char* call, flashmla_status status) const {
    return diag::fail(diag::rule::embedded_kernel_failed,
                      fmt::format("{} failed: {}: {}", call, functions.status_text(status),
                                  context != nullptr ? functions.error_message(context) : ""));
  }
};

KernelLibrary::KernelLibrary(std::unique_ptr<State> state) : state_(std::move(state)) {}
KernelLibrary::KernelLibrary(KernelLibrary&&) noexcept = default;
KernelLibrary& KernelLibrary::operator=(KernelLibrary&&) noexcept = default;
KernelLibrary::~KernelLibrary() = default;

const std::string& KernelLibrary::path() const {
  return state_->path;
}
const std::string& KernelLibrary::sha256() const {
  return state_->sha256;
}
const flashmla_build& KernelLibrary::build() const {
  return *state_->build;
}

bool KernelLibrary::is_cuda() const {
  return is_cuda_build(*state_->build);
}

cuda::KernelFunctions KernelLibrary::functions() const {
  return state_->functions;
}

diag::Result<KernelLibrary> KernelLibrary::load(const Options& options) {
  const auto refuse = [&](std::string problem) {
    return diag::fail(diag::rule::embedded_kernel_library, std::move(problem));
  };
  auto state = std::make_unique<State>();
  std::error_code error;
  // dlopen searches the system's folders for a name without a slash.
  state->path = std::filesystem::absolute(options.path, error).lexically_normal().string();
  auto digest = digest::sha256_file(state->path);
  if (!digest) return refuse(digest.error().text());
  state->sha256 = std::move(digest).value();
  state->handle = ::dlopen(state->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (state->handle == nullptr) {
    const char* const reason = ::dlerror();
    return refuse(fmt::format("cannot load \"{}\": {}", state->path, reason != nullptr ? reason : "unknown reason"));
  }
  if (const char* missing = state->resolve_all()) {
    return refuse(fmt::format("\"{}\" has no function \"{}\"", state->path, missing));
  }
  state->build = state->build_info();
  if (state->build == nullptr || state->build->abi_version != FLASHMLA_ABI_VERSION) {
    return refuse(fmt::format("\"{}\" has ABI version {}, expected {}", state->path,
                              state->build != nullptr ? state->build->abi_version : 0, FLASHMLA_ABI_VERSION));
  }
  if (is_cuda_build(*state->build)) return KernelLibrary(std::move(state));
  flashmla_options context_options = {};
  context_options.num_threads = options.threads;
  if (const auto status = state->functions.context_create(&context_options, &state->context); status != FLASHMLA_OK) {
    return refuse(fmt::format("\"{}\" cannot make a context: {}", state->path, state->functions.status_text(status)));
  }
  return KernelLibrary(std::move(state));
}

diag::Result<diag::Done> KernelLibrary::sparse_decode(flashmla_sparse_decode_params params) {
  size_t needed = 0;
  if (const auto status = state_->functions.workspace_size(state_->context, &params, &needed); status != FLASHMLA_OK) {
    return state_->failure("flashmla_sparse_decode_workspace", status);
  }
  if (needed > state_->workspace_bytes) {
    state_->workspace_bytes = 0;
    state_->workspace.reset();
    void* const memory = ::operator new (needed, std::align_val_t{kWorkspaceAlignment});
    state_->workspace.reset(static_cast<std::byte*>(memory));
    state_->workspace_bytes = needed;
  }
  params.workspace = state_->workspace.get();
  params.workspace_bytes = state_->workspace_bytes;
  if (const auto status = state_->functions.decode(state_->context, &params); status != FLASHMLA_OK) {
    return state_->failure("flashmla_sparse_decode", status);
  }
  return diag::Done{};
}

}  // namespace sweep::engine::embedded
