// A kernel library opened at run time: the gate judges the file that will be used, not what it was linked with.
#pragma once

#include <memory>
#include <string>

#include "flashmla/flashmla.h"

namespace flashmla::gate {

struct Functions {
  decltype(&flashmla_build_info) build_info;
  decltype(&flashmla_context_create) context_create;
  decltype(&flashmla_context_destroy) context_destroy;
  decltype(&flashmla_sparse_decode_workspace) sparse_decode_workspace;
  decltype(&flashmla_sparse_decode) sparse_decode;
  decltype(&flashmla_dense_decode_workspace) dense_decode_workspace;
  decltype(&flashmla_dense_decode) dense_decode;
  decltype(&flashmla_error_message) error_message;
  decltype(&flashmla_status_text) status_text;
};

class Library {
 public:
  // On failure returns null and says why in `error`.
  static std::unique_ptr<Library> open(const std::string& path, std::string& error);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Functions& functions() const { return functions_; }
  const flashmla_build& build() const { return *functions_.build_info(); }
  const std::string& path() const { return path_; }

 private:
  Library() = default;
  std::string path_;
  void* handle_ = nullptr;
  Functions functions_{};
};

class Context {
 public:
  // `threads` and `device`: see flashmla_options. Check ok() before use.
  Context(const Library& library, int32_t threads, int32_t device = 0);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  bool ok() const { return context_ != nullptr; }
  flashmla_status creation_status() const { return creation_status_; }
  flashmla_context* get() const { return context_; }
  const Functions& functions() const { return functions_; }
  // A status of the last call and what the library says about it.
  std::string failure(flashmla_status status) const;
  const char* message() const { return functions_.error_message(context_); }

 private:
  const Functions& functions_;
  flashmla_context* context_ = nullptr;
  flashmla_status creation_status_ = FLASHMLA_OK;
};

}  // namespace flashmla::gate
