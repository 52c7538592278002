#include "kernels/gate/library.h"

#include <dlfcn.h>

namespace flashmla::gate {
namespace {

template <typename Function>
bool find(void* handle, const char* name, Function& function, std::string& error) {
  void* symbol = dlsym(handle, name);
  if (symbol == nullptr) {
    error = std::string("it has no function \"") + name + "\"";
    return false;
  }
  function = reinterpret_cast<Function>(symbol);
  return true;
}

}  // namespace

std::unique_ptr<Library> Library::open(const std::string& path, std::string& error) {
  std::unique_ptr<Library> library(new Library);
  library->path_ = path;
  // A name without a slash would be searched for in the system's folders.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  library->handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    error = dlerror();
    return nullptr;
  }
  void* handle = library->handle_;
  Functions& f = library->functions_;
  const bool complete = find(handle, "flashmla_build_info", f.build_info, error) &&
                        find(handle, "flashmla_context_create", f.context_create, error) &&
                        find(handle, "flashmla_context_destroy", f.context_destroy, error) &&
                        find(handle, "flashmla_sparse_decode_workspace", f.sparse_decode_workspace, error) &&
                        find(handle, "flashmla_sparse_decode", f.sparse_decode, error) &&
                        find(handle, "flashmla_dense_decode_workspace", f.dense_decode_workspace, error) &&
                        find(handle, "flashmla_dense_decode", f.dense_decode, error) &&
                        find(handle, "flashmla_error_message", f.error_message, error) &&
                        find(handle, "flashmla_status_text", f.status_text, error);
  if (!complete) return nullptr;
  if (library->build().abi_version != FLASHMLA_ABI_VERSION) {
    error = "its ABI version is " + std::to_string(library->build().abi_version) + ", expected " +
            std::to_string(FLASHMLA_ABI_VERSION);
    return nullptr;
  }
  return library;
}

Library::~Library() {
  if (handle_ != nullptr) dlclose(handle_);
}

Context::Context(const Library& library, int32_t threads, int32_t device) : functions_(library.functions()) {
  const flashmla_options options = {threads, device};
  creation_status_ = functions_.context_create(&options, &context_);
  if (creation_status_ != FLASHMLA_OK) context_ = nullptr;
}

Context::~Context() {
  functions_.context_destroy(context_);
}

std::string Context::failure(flashmla_status status) const {
  return std::string(functions_.status_text(status)) + ": " + message();
}

}  // namespace flashmla::gate
