// A kernel library that computes nothing: results are zeros, except for faults chosen by environment variables. For
// tests of what surrounds a library.
#include <cstdlib>
#include <cstring>

#include "flashmla/flashmla.h"

struct flashmla_context {
  const char* message = "";
};

namespace {

const flashmla_build kBuild = {FLASHMLA_ABI_VERSION, "sm_90a", "native", "", "none"};

bool faulty(const char* fault) {
  return std::getenv(fault) != nullptr;
}

template <typename Params>
flashmla_status answer(flashmla_context* context, const Params& params) {
  if (faulty("STAND_IN_REFUSES_128_HEADS") && params.num_heads == 128) {
    context->message = "no 128 heads";
    return FLASHMLA_UNSUPPORTED;
  }
  if (params.workspace_bytes < 64 || params.workspace == nullptr || params.stream == nullptr) {
    context->message = "workspace or stream";
    return FLASHMLA_INVALID_ARGUMENT;
  }
  for (int32_t b = 0; b < params.batch; ++b) {
    for (int32_t t = 0; t < params.s_q; ++t) {
      for (int32_t h = 0; h < params.num_heads; ++h) {
        uint16_t* out =
            params.out + b * params.out_batch_stride + t * params.out_token_stride + h * params.out_head_stride;
        std::memset(out, 0, sizeof *out * static_cast<size_t>(params.d_v));
        const bool last = b + 1 == params.batch && t + 1 == params.s_q && h + 1 == params.num_heads;
        if (last && faulty("STAND_IN_FORGETS_LAST_LSE")) continue;
        params.lse[b * params.lse_batch_stride + t * params.lse_token_stride + h * params.lse_head_stride] = 0;
      }
    }
  }
  context->message = "";
  return FLASHMLA_OK;
}

}  // namespace

extern "C" {

const flashmla_build* flashmla_build_info(void) {
  return &kBuild;
}
flashmla_status flashmla_context_create(const flashmla_options*, flashmla_context** context) {
  *context = new flashmla_context;
  return FLASHMLA_OK;
}
void flashmla_context_destroy(flashmla_context* context) {
  delete context;
}
flashmla_status flashmla_sparse_decode_workspace(flashmla_context*, const flashmla_sparse_decode_params*,
                                                 size_t* bytes) {
  *bytes = 64;
  return FLASHMLA_OK;
}
flashmla_status flashmla_sparse_decode(flashmla_context* context, const flashmla_sparse_decode_params* params) {
  return answer(context, *params);
}
flashmla_status flashmla_dense_decode_workspace(flashmla_context*, const flashmla_dense_decode_params*, size_t* bytes) {
  *bytes = 64;
  return FLASHMLA_OK;
}
flashmla_status flashmla_dense_decode(flashmla_context* context, const flashmla_dense_decode_params* params) {
  return answer(context, *params);
}
const char* flashmla_error_message(const flashmla_context* context) {
  return context->message;
}
const char* flashmla_status_text(flashmla_status) {
  return "refused";
}

}  // extern "C"
