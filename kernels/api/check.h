// Argument checks that every backend shares. They read the parameter structs only, never the memory behind their
// pointers (which may be on a device), and stop at the first problem in the order dtype, layout, shape, range.
#pragma once

#include <cstddef>

#include "flashmla/flashmla.h"
#include "kernels/api/error_text.h"

namespace flashmla {

flashmla_status check_sparse_decode(const flashmla_sparse_decode_params& params, ErrorText& error);
flashmla_status check_dense_decode(const flashmla_dense_decode_params& params, ErrorText& error);

// The shape part alone: what the workspace functions need to be able to answer.
flashmla_status check_sparse_shape(const flashmla_sparse_decode_params& params, ErrorText& error);
flashmla_status check_dense_shape(const flashmla_dense_decode_params& params, ErrorText& error);

flashmla_status check_workspace(const void* workspace, size_t bytes, size_t needed, ErrorText& error);

}  // namespace flashmla
