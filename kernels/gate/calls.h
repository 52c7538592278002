// The sparse and the dense call under one name each, for code that does the same with both.
#pragma once

#include "kernels/gate/library.h"
#include "kernels/gate/problem.h"

namespace flashmla::gate {

using Sparse = flashmla_sparse_decode_params;
using Dense = flashmla_dense_decode_params;

inline Sparse params_into(const Problem& problem, Outputs& outputs, const Sparse&) {
  return problem.sparse_into(outputs);
}
inline Dense params_into(const Problem& problem, Outputs& outputs, const Dense&) {
  return problem.dense_into(outputs);
}

inline flashmla_status query_workspace(const Context& context, const Sparse* params, size_t* bytes) {
  return context.functions().sparse_decode_workspace(context.get(), params, bytes);
}
inline flashmla_status query_workspace(const Context& context, const Dense* params, size_t* bytes) {
  return context.functions().dense_decode_workspace(context.get(), params, bytes);
}

inline auto decode_function(const Functions& f, const Sparse&) {
  return f.sparse_decode;
}
inline auto decode_function(const Functions& f, const Dense&) {
  return f.dense_decode;
}

template <typename Params>
flashmla_status decode(const Context& context, const Params* params) {
  return decode_function(context.functions(), Params{})(context.get(), params);
}

}  // namespace flashmla::gate
