// The C API of the CUDA libraries.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <new>
#include <vector>

#include "flashmla/flashmla.h"
#include "kernels/api/check.h"
#include "kernels/api/entry.h"
#include "kernels/api/layout.h"
#include "kernels/api/variant.h"
#include "kernels/cuda/call.h"
#include "kernels/cuda/dense_plan.h"
#include "kernels/cuda/plan.h"

namespace flashmla::cuda {
namespace {

constexpr size_t kFamilies = 8;         // four record formats, two dense keys, and these again
constexpr size_t kFirstPageFamily = 6;  // for whole pages; without kernels where the architecture has none
constexpr size_t kFirstDenseFamily = 4;

struct Family {
  Kernels kernels;
  std::vector<Occupancy> occupancies;
};

size_t family_of(const flashmla_sparse_decode_params& params) {
  return static_cast<size_t>(format_number(params.main));
}

size_t family_of(const flashmla_dense_decode_params& params) {
  return kFirstDenseFamily + (params.d_qk == kDenseDimsLong ? 0 : 1);
}

int64_t most_tokens(const flashmla_sparse_kv& kv) {
  return kv.pool != nullptr ? kv.topk : 0;
}

Work work_of(const flashmla_sparse_decode_params& params) {
  return {params.batch * params.s_q, params.num_heads, most_tokens(params.main) + most_tokens(params.extra)};
}

Work work_of(const flashmla_dense_decode_params& params) {
  return {params.batch, params.s_q * params.num_heads, int64_t{params.max_pages} * params.page_size};
}

// Lets the kernel use the shared memory and the clusters it wants, and asks how many of them run at a time.
cudaError_t prepare(const Kernel& kernel, int multiprocessors, Occupancy& occupancy) {
  cudaError_t error =
      cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes);
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(kernel.function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  occupancy = {};
  occupancy.multiprocessors = multiprocessors;
  for (int32_t splits = 1; error == cudaSuccess && splits <= kMaxSplits; ++splits) {
    const ClusterLaunch launch(kernel, dim3(static_cast<unsigned>(splits), 1, 1), splits, nullptr);
    int clusters = 0;
    // Sizes that the device does not have are an error here; none of them at a time is what that means.
    if (cudaOccupancyMaxActiveClusters(&clusters, kernel.function, &launch.config()) != cudaSuccess) clusters = 0;
    cudaGetLastError();
    occupancy.clusters[static_cast<size_t>(splits)] = clusters;
  }
  return error;
}

// Makes a device current for as long as it lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) : device_(device) {
    error_ = cudaGetDevice(&before_);
    if (error_ == cudaSuccess && before_ != device_) error_ = cudaSetDevice(device_);
  }
  ~CurrentDevice() {
    if (error_ == cudaSuccess && before_ != device_) cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  cudaError_t error() const { return error_; }

 private:
  int device_;
  int before_ = 0;
  cudaError_t error_ = cudaSuccess;
};

// All of them, ordered by the number of heads.
Kernels by_heads(std::initializer_list<Kernels> families) {
  Kernels kernels;
  for (const Kernels& family : families) kernels.insert(kernels.end(), family.begin(), family.end());
  std::stable_sort(kernels.begin(), kernels.end(), [](const Kernel& a, const Kernel& b) { return a.heads < b.heads; });
  return kernels;
}

int32_t padded_heads(int32_t heads) {
  return static_cast<int32_t>(round_up(heads, kHeadMultiple));
}

}  // namespace
}  // namespace flashmla::cuda

struct flashmla_context {
  int device = 0;
  std::array<flashmla::cuda::Family, flashmla::cuda::kFamilies> families{};
  flashmla::ErrorText error;
};

namespace {

using namespace flashmla;
using namespace flashmla::cuda;

template <typename Params>
Plan plan_of(const flashmla_context& context, const Params& params, int32_t least_parts = 1) {
  const Family& family = context.families[family_of(params)];
  const Work work = work_of(params);
  // Dense rows have the heads of all query tokens; each token's are padded.
  const int32_t padded = padded_heads(params.num_heads) * (work.heads / params.num_heads);
  return make_plan(family.kernels, family.occupancies, work, padded, least_parts);
}

const Family& page_family(const flashmla_context& context, const flashmla_dense_decode_params& params) {
  return context.families[family_of(params) - kFirstDenseFamily + kFirstPageFamily];
}

// The same by the kernels for whole pages, if there are any.
Plan page_plan_of(const flashmla_context& context, const flashmla_dense_decode_params& params) {
  const Family& family = page_family(context, params);
  const Work work = work_of(params);
  return make_dense_plan(family.kernels, family.occupancies, work, padded_heads(params.num_heads) * params.s_q);
}

// The plan of a call.
Plan choose_plan(const flashmla_context& context, const flashmla_sparse_decode_params& params,
                 const DecodeArguments& /*arguments*/) {
  return plan_of(context, params);
}

Plan choose_plan(const flashmla_context& context, const flashmla_dense_decode_params& params,
                 const DecodeArguments& arguments) {
  const Pool& pool = arguments.main.pool;
  const bool whole = !page_family(context, params).kernels.empty() && pool.aligned && box_tokens(pool) != 0;
  return whole ? page_plan_of(context, params) : plan_of(context, params);
}

cudaError_t launch(const Plan& plan, const DecodeArguments& arguments, cudaStream_t stream) {
  return plan.kernel->launch(*plan.kernel, arguments, plan.grid, stream);
}

// What `start` starts on the context's device.
template <typename Start>
flashmla_status start_on_device(flashmla_context& context, Start start) {
  const CurrentDevice current(context.device);
  cudaError_t result = current.error();
  if (result == cudaSuccess) result = start();
  if (result == cudaSuccess) return FLASHMLA_OK;
  return context.error.set(FLASHMLA_DEVICE_ERROR, "%s", cudaGetErrorString(result));
}

// A kernel reads one format. Where "main" and "extra" have different ones, each gets a kernel of its own, which leaves
// parts of results, and one adds up the parts of both.
struct TwoCalls {
  flashmla_sparse_decode_params main, extra;
  Plan main_plan, extra_plan;

  TwoCalls(const flashmla_context& context, const flashmla_sparse_decode_params& params) : main(params), extra(params) {
    main.extra = {};
    extra.main = params.extra;
    extra.extra = {};
    main_plan = plan_of(context, main, 2);
    extra_plan = plan_of(context, extra, 2);
  }

  // Where the second kernel's parts begin in the workspace.
  size_t second() const {
    return static_cast<size_t>(round_up(static_cast<int64_t>(main_plan.workspace_bytes), kWorkspaceAlignment));
  }
  size_t workspace_bytes() const { return second() + extra_plan.workspace_bytes; }
};

bool has_two_formats(const flashmla_sparse_decode_params& params) {
  return most_tokens(params.extra) > 0 && format_number(params.extra) != format_number(params.main);
}

flashmla_status decode_two_formats(flashmla_context& context, const flashmla_sparse_decode_params& params) {
  const TwoCalls calls(context, params);
  const flashmla_status status =
      check_workspace(params.workspace, params.workspace_bytes, calls.workspace_bytes(), context.error);
  if (status != FLASHMLA_OK) return status;
  DecodeArguments main = make_arguments(calls.main), extra = make_arguments(calls.extra);
  auto* const second = reinterpret_cast<float*>(static_cast<uint8_t*>(params.workspace) + calls.second());
  const Grid &grid = calls.main_plan.grid, &extra_grid = calls.extra_plan.grid;
  set_shards(main, grid.splits, grid.parts, static_cast<float*>(params.workspace));
  set_shards(extra, extra_grid.splits, extra_grid.parts, second);
  const auto stream = static_cast<cudaStream_t>(params.stream);
  return start_on_device(context, [&] {
    cudaError_t result = launch(calls.main_plan, main, stream);
    if (result == cudaSuccess) result = launch(calls.extra_plan, extra, stream);
    if (result != cudaSuccess) return result;
    return combine_two(main, {second, extra_grid.parts}, grid.rows, main.heads_per_row, stream);
  });
}

template <typename Params>
flashmla_status decode(flashmla_context& context, const Params& params) {
  DecodeArguments arguments = make_arguments(params);
  const Plan plan = choose_plan(context, params, arguments);
  const flashmla_status status =
      check_workspace(params.workspace, params.workspace_bytes, plan.workspace_bytes, context.error);
  if (status != FLASHMLA_OK) return status;
  set_shards(arguments, plan.grid.splits, plan.grid.parts, static_cast<float*>(params.workspace));
  const auto stream = static_cast<cudaStream_t>(params.stream);
  return start_on_device(context, [&] {
    const cudaError_t result = launch(plan, arguments, stream);
    if (result != cudaSuccess || plan.grid.parts == 1) return result;
    return combine(arguments, plan.grid.rows, arguments.heads_per_row, plan.kernel->lets_combine_start, stream);
  });
}

}  // namespace

const flashmla_build* flashmla_build_info(void) {
  static const flashmla_build build = {FLASHMLA_ABI_VERSION, FLASHMLA_ARCH_NAME, kVariantName, "",
                                       "nvcc " FLASHMLA_NVCC_VERSION};
  return &build;
}

flashmla_status flashmla_context_create(const flashmla_options* options, flashmla_context** context) {
  if (context == nullptr) return FLASHMLA_INVALID_ARGUMENT;
  *context = nullptr;
  const int device = options != nullptr ? options->device : 0;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return FLASHMLA_DEVICE_ERROR;
  if (device < 0 || device >= devices) return FLASHMLA_INVALID_ARGUMENT;
  auto* made = new (std::nothrow) flashmla_context;
  if (made == nullptr) return FLASHMLA_DEVICE_ERROR;
  made->device = device;
  const CurrentDevice current(device);
  cudaError_t error = current.error();
  int multiprocessors = 0;
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  const std::array<Kernels, kFamilies> kernels = {
      by_heads({kernels_v4(), kernels_v4_short(), kernels_v4_long(), kernels_v4_sm90()}),
      by_heads({kernels_v32(), kernels_v32_short(), kernels_v32_long(), kernels_v32_sm90()}),
      kernels_v41(),
      kernels_v41_fp4(),
      kernels_dense576(),
      kernels_dense512(),
      kernels_dense576_sm90(),
      kernels_dense512_sm90()};
  for (size_t i = 0; i < kFamilies; ++i) {
    Family& family = made->families[i];
    family.kernels = kernels[i];
    family.occupancies.resize(family.kernels.size());
    for (size_t k = 0; k < family.kernels.size() && error == cudaSuccess; ++k) {
      error = prepare(family.kernels[k], multiprocessors, family.occupancies[k]);
    }
  }
  if (error != cudaSuccess) {
    delete made;
    return FLASHMLA_DEVICE_ERROR;
  }
  *context = made;
  return FLASHMLA_OK;
}

void flashmla_context_destroy(flashmla_context* context) {
  delete context;
}

flashmla_status flashmla_sparse_decode_workspace(flashmla_context* context, const flashmla_sparse_decode_params* params,
                                                 size_t* bytes) {
  flashmla_status status = begin_workspace_call(context, params, bytes);
  if (status == FLASHMLA_OK) status = check_sparse_shape(*params, context->error);
  if (status != FLASHMLA_OK) return status;
  *bytes = 0;
  if (params->batch == 0) return FLASHMLA_OK;
  *bytes = has_two_formats(*params) ? TwoCalls(*context, *params).workspace_bytes()
                                    : plan_of(*context, *params).workspace_bytes;
  return FLASHMLA_OK;
}

flashmla_status flashmla_sparse_decode(flashmla_context* context, const flashmla_sparse_decode_params* params) {
  flashmla_status status = begin_call(context, params);
  if (status == FLASHMLA_OK) status = check_sparse_decode(*params, context->error);
  if (status != FLASHMLA_OK || params->batch == 0) return status;
  return has_two_formats(*params) ? decode_two_formats(*context, *params) : decode(*context, *params);
}

flashmla_status flashmla_dense_decode_workspace(flashmla_context* context, const flashmla_dense_decode_params* params,
                                                size_t* bytes) {
  flashmla_status status = begin_workspace_call(context, params, bytes);
  if (status == FLASHMLA_OK) status = check_dense_shape(*params, context->error);
  if (status != FLASHMLA_OK) return status;
  *bytes = 0;
  if (params->batch == 0) return FLASHMLA_OK;
  // Which kernels run depends on where the pages will lie, too.
  *bytes = plan_of(*context, *params).workspace_bytes;
  if (!page_family(*context, *params).kernels.empty()) {
    *bytes = std::max(*bytes, page_plan_of(*context, *params).workspace_bytes);
  }
  return FLASHMLA_OK;
}

flashmla_status flashmla_dense_decode(flashmla_context* context, const flashmla_dense_decode_params* params) {
  flashmla_status status = begin_call(context, params);
  if (status == FLASHMLA_OK) status = check_dense_decode(*params, context->error);
  if (status != FLASHMLA_OK || params->batch == 0) return status;
  return decode(*context, *params);
}

const char* flashmla_error_message(const flashmla_context* context) {
  return context != nullptr ? context->error.text() : "the context is null";
}
