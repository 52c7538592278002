// The CPU kernels behind the manners of a device library: "sm_90a", pointers to device memory only, work given to the
// stream, an index outside the pool is no token. FLASHMLA_BROKEN names one fault at a time. Works with the fake driver.
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flashmla/flashmla.h"
#include "tests/kernels/fake_driver.h"

namespace {

using Sparse = flashmla_sparse_decode_params;
using Dense = flashmla_dense_decode_params;

template <typename Function>
Function symbol(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* found = handle != nullptr ? dlsym(handle, name) : nullptr;
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function>(found);
}

template <typename Function>
Function real(const char* name) {
  return symbol<Function>(FLASHMLA_REAL_LIBRARY, name);
}

template <typename Function>
Function driver(const char* name) {
  return symbol<Function>("libcuda.so.1", name);
}

bool fault_is(std::string_view name) {
  const char* fault = std::getenv("FLASHMLA_BROKEN");
  return fault != nullptr && name == fault;
}

flashmla_status real_decode(flashmla_context* context, const Sparse* params) {
  return real<decltype(&flashmla_sparse_decode)>("flashmla_sparse_decode")(context, params);
}
flashmla_status real_decode(flashmla_context* context, const Dense* params) {
  return real<decltype(&flashmla_dense_decode)>("flashmla_dense_decode")(context, params);
}

std::string_view real_message(flashmla_context* context) {
  return real<decltype(&flashmla_error_message)>("flashmla_error_message")(context);
}

// A copy of the list with -1 for what is outside the pool.
std::vector<int32_t> inside_only(flashmla_sparse_kv& kv, const Sparse& params) {
  if (kv.pool == nullptr || kv.topk == 0) return {};
  std::vector<int32_t> list(static_cast<size_t>(params.batch * kv.indices_batch_stride));
  for (int64_t b = 0; b < params.batch; ++b) {
    for (int64_t t = 0; t < params.s_q; ++t) {
      for (int64_t i = 0; i < kv.topk; ++i) {
        const int64_t place = b * kv.indices_batch_stride + t * kv.indices_query_stride + i;
        const int32_t index = kv.indices[place];
        list[static_cast<size_t>(place)] = index >= 0 && index < kv.num_pages * kv.page_size ? index : -1;
      }
    }
  }
  kv.indices = list.data();
  return list;
}

flashmla_status compute(flashmla_context* context, const Dense& params) {
  return real_decode(context, &params);
}

flashmla_status compute(flashmla_context* context, const Sparse& params) {
  const flashmla_status status = real_decode(context, &params);
  if (status != FLASHMLA_INVALID_ARGUMENT || real_message(context).find("indices[") == std::string_view::npos) {
    return status;
  }
  Sparse tame = params;
  const std::vector<int32_t> main = inside_only(tame.main, params);
  const std::vector<int32_t> extra = inside_only(tame.extra, params);
  return real_decode(context, &tame);
}

bool on_device(const void* pointer) {
  static const auto is_device_memory = driver<decltype(&fake_is_device_memory)>("fake_is_device_memory");
  return pointer == nullptr || is_device_memory(pointer) != 0;
}

bool all_on_device(const Sparse& p) {
  for (const flashmla_sparse_kv* kv : {&p.main, &p.extra}) {
    if (!on_device(kv->pool) || !on_device(kv->indices) || !on_device(kv->topk_length)) return false;
  }
  return on_device(p.q) && on_device(p.attn_sink) && on_device(p.out) && on_device(p.lse) && on_device(p.workspace);
}

bool all_on_device(const Dense& p) {
  return on_device(p.q) && on_device(p.kv) && on_device(p.block_table) && on_device(p.seq_lens) && on_device(p.out) &&
         on_device(p.lse) && on_device(p.workspace);
}

template <typename Params>
struct Recorded {
  flashmla_context* context;
  Params params;
  std::vector<int32_t> lengths;  // as they were at capture, for the fault that keeps them
};

void keep_lengths(Recorded<Sparse>& call) {
  const flashmla_sparse_kv& kv = call.params.main;
  if (kv.topk_length == nullptr) return;
  call.lengths.assign(kv.topk_length, kv.topk_length + call.params.batch);
  call.params.main.topk_length = call.lengths.data();
}
void keep_lengths(Recorded<Dense>&) {}

template <typename Params>
void corrupt_replay(const Params& p) {
  if (p.batch > 0 && std::isfinite(*p.lse)) *p.lse = std::nextafterf(*p.lse, 1e30F);
}

// Recorded calls live until the process ends: the graph that makes them is not ours.
template <typename Params>
int record(flashmla_context* context, const Params& params) {
  static std::vector<std::unique_ptr<Recorded<Params>>> kept;
  kept.push_back(std::make_unique<Recorded<Params>>(Recorded<Params>{context, params, {}}));
  if (fault_is("stale-lengths")) keep_lengths(*kept.back());
  using Launch = int (*)(void*, void (*)(void*), void*);
  return driver<Launch>("cuLaunchHostFunc")(
      params.stream,
      [](void* data) {
        auto& call = *static_cast<Recorded<Params>*>(data);
        compute(call.context, call.params);
        if (fault_is("graph-differs")) corrupt_replay(call.params);
      },
      kept.back().get());
}

template <typename Params>
flashmla_status decode(flashmla_context* context, const Params* params) {
  if (context == nullptr || params == nullptr) return real_decode(context, params);
  if (!all_on_device(*params)) return FLASHMLA_DEVICE_ERROR;
  if (fault_is("allocates")) {
    uint64_t memory = 0;
    if (driver<int (*)(uint64_t*, size_t)>("cuMemAlloc_v2")(&memory, 64) != 0) return FLASHMLA_DEVICE_ERROR;
    driver<int (*)(uint64_t)>("cuMemFree_v2")(memory);
  }
  if (fault_is("waits")) driver<int (*)(void*)>("cuStreamSynchronize")(params->stream);
  if (fault_is("device-lost")) driver<decltype(&fake_lose_device)>("fake_lose_device")();
  int capturing = 0;
  driver<int (*)(void*, int*)>("cuStreamIsCapturing")(params->stream, &capturing);
  if (capturing != 0) return record(context, *params) == 0 ? FLASHMLA_OK : FLASHMLA_DEVICE_ERROR;
  const flashmla_status status = compute(context, *params);
  static int calls = 0;
  if (status == FLASHMLA_OK && fault_is("rarely-differs") && ++calls == 150) corrupt_replay(*params);
  if (status == FLASHMLA_OK && fault_is("half-a-unit") && params->batch > 0) *params->lse += 3e-6F;
  return status;
}

}  // namespace

const flashmla_build* flashmla_build_info() {
  static flashmla_build build = *real<decltype(&flashmla_build_info)>("flashmla_build_info")();
  build.arch = "sm_90a";
  build.isa = nullptr;
  return &build;
}

flashmla_status flashmla_context_create(const flashmla_options* options, flashmla_context** context) {
  return real<decltype(&flashmla_context_create)>("flashmla_context_create")(options, context);
}

void flashmla_context_destroy(flashmla_context* context) {
  real<decltype(&flashmla_context_destroy)>("flashmla_context_destroy")(context);
}

flashmla_status flashmla_sparse_decode_workspace(flashmla_context* context, const Sparse* params, size_t* bytes) {
  return real<decltype(&flashmla_sparse_decode_workspace)>("flashmla_sparse_decode_workspace")(context, params, bytes);
}

flashmla_status flashmla_sparse_decode(flashmla_context* context, const Sparse* params) {
  return decode(context, params);
}

flashmla_status flashmla_dense_decode_workspace(flashmla_context* context, const Dense* params, size_t* bytes) {
  return real<decltype(&flashmla_dense_decode_workspace)>("flashmla_dense_decode_workspace")(context, params, bytes);
}

flashmla_status flashmla_dense_decode(flashmla_context* context, const Dense* params) {
  return decode(context, params);
}

const char* flashmla_error_message(const flashmla_context* context) {
  return real<decltype(&flashmla_error_message)>("flashmla_error_message")(context);
}

const char* flashmla_status_text(flashmla_status status) {
  return real<decltype(&flashmla_status_text)>("flashmla_status_text")(status);
}
