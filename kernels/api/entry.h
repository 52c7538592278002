// How every function of the C API begins, the same for every backend. `Context` has a member `error`.
#pragma once

#include <cstddef>

#include "flashmla/flashmla.h"
#include "kernels/api/error_text.h"

namespace flashmla {

template <typename Context, typename Params>
flashmla_status begin_call(Context* context, const Params* params) {
  if (context == nullptr) return FLASHMLA_INVALID_ARGUMENT;
  context->error.clear();
  if (params == nullptr) return context->error.set(FLASHMLA_INVALID_ARGUMENT, "\"params\" is null");
  return FLASHMLA_OK;
}

// Of the functions that answer with a number of bytes.
template <typename Context, typename Params>
flashmla_status begin_workspace_call(Context* context, const Params* params, const size_t* bytes) {
  const flashmla_status status = begin_call(context, params);
  if (status != FLASHMLA_OK || bytes != nullptr) return status;
  return context->error.set(FLASHMLA_INVALID_ARGUMENT, "\"bytes\" is null");
}

}  // namespace flashmla
