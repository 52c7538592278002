#include "kernels/bench/device_bench.h"

#include <algorithm>
#include <cstring>

namespace flashmla::bench {

using device::Result;
using device::Status;

namespace {

constexpr uint64_t kSeed = 7;
constexpr int64_t kFewestLaunches = 8;
constexpr double kShortestGraphUs = 2000;
constexpr int64_t kMostLaunches = 1500;

// Launches that make a graph long enough that its own start hardly counts, in whole rounds of `round` launches.
int64_t launches_for(double us_per_launch, int64_t round) {
  const auto wanted = static_cast<int64_t>(kShortestGraphUs / std::max(us_per_launch, 0.1)) + 1;
  const int64_t launches = std::clamp(wanted, kFewestLaunches, kMostLaunches);
  return (launches + round - 1) / round * round;
}

// Whole rounds over the sets, from a guess at the time of a launch.
int64_t cold_launches(const CallMemory& memory) {
  constexpr double kLaunchUs = 5;
  constexpr double kBytesPerUs = 4e6;
  const int64_t bytes = attended_bytes(memory.shape(), memory.selection());
  return launches_for(kLaunchUs + static_cast<double>(bytes) / kBytesPerUs, memory.sets());
}

}  // namespace

double ShapeResult::kv_gbps() const {
  return cold.us > 0 ? static_cast<double>(unique_bytes) / cold.us * 1e-3 : 0;
}

std::unique_ptr<Candidate> Candidate::open(const std::string& path, std::string& error) {
  auto candidate = std::make_unique<Candidate>();
  candidate->library_ = gate::Library::open(path, error);
  if (candidate->library_ == nullptr) return nullptr;
  if (std::strcmp(candidate->library_->build().arch, "cpu") == 0) {
    error = "it is built for the CPU, which is timed without --library";
    return nullptr;
  }
  candidate->context_ = std::make_unique<gate::Context>(*candidate->library_, 0);
  if (candidate->context_->ok()) return candidate;
  error = std::string("it creates no context on this device: ") +
          candidate->library_->functions().status_text(candidate->context_->creation_status());
  return nullptr;
}

Status Candidate::as_status(flashmla_status status) const {
  if (status == FLASHMLA_OK) return {};
  return Status::failure(context_->failure(status));
}

Status Candidate::sparse(const flashmla_sparse_decode_params& params) const {
  return as_status(library_->functions().sparse_decode(context_->get(), &params));
}

Status Candidate::dense(const flashmla_dense_decode_params& params) const {
  return as_status(library_->functions().dense_decode(context_->get(), &params));
}

Result<size_t> Candidate::workspace(const CallMemory& memory, const KvPool& pool) const {
  size_t bytes = 0;
  Status status;
  if (memory.shape().dense()) {
    const flashmla_dense_decode_params params = memory.dense(pool, 0);
    status = as_status(library_->functions().dense_decode_workspace(context_->get(), &params, &bytes));
  } else {
    const flashmla_sparse_decode_params params = memory.sparse(pool, 0);
    status = as_status(library_->functions().sparse_decode_workspace(context_->get(), &params, &bytes));
  }
  if (!status) return status;
  return bytes;
}

std::unique_ptr<DeviceBench> DeviceBench::open(const std::string& plain_read, int32_t replays, std::string& error) {
  std::unique_ptr<DeviceBench> bench(new DeviceBench);
  bench->replays_ = replays;
  const auto keep = [&error](auto made, auto& place) {
    if (!made) {
      error = made.message();
      return false;
    }
    place = std::make_unique<std::decay_t<decltype(*made)>>(*std::move(made));
    return true;
  };
  if (!keep(device::Driver::open(), bench->driver_) || !keep(bench->driver_->device(0), bench->device_)) return nullptr;
  bench->clocks_ = std::make_unique<ClockReader>(bench->device_->info().pci_bus_id);
  if (!keep(Timer::make(*bench->device_), bench->timer_)) return nullptr;
  if (!keep(ReadKernels::load(*bench->device_, plain_read), bench->kernels_)) {
    error = "\"" + plain_read + "\": " + error;
    return nullptr;
  }
  error = bench->kernels_->touch(bench->timer_->stream()).message();
  return error.empty() ? std::move(bench) : nullptr;
}

Result<Ceilings> DeviceBench::ceilings() {
  Ceilings ceilings;
  constexpr int64_t kLinearBytes = int64_t{4} << 30;
  const device::Stream& stream = timer_->stream();
  if (const Status filled = pool_.ensure(*device_, *kernels_, stream, CacheKind::kV4, kLinearBytes); !filled) {
    return filled;
  }
  for (const uint32_t blocks : {0U, 1056U, 2112U}) {
    uint64_t bytes = 0;
    const auto time = timer_->time(
        4, replays_, [&](int64_t) { return kernels_->read_linear(pool_.memory(), blocks, stream, bytes); });
    if (!time) return time.status();
    const double gbps = static_cast<double>(bytes) / time->us * 1e-3;
    if (gbps <= ceilings.linear_gbps) continue;
    ceilings.linear_gbps = gbps;
    ceilings.linear_grid = ReadGrid{8, 512, blocks}.text();
  }
  const auto multiprocessors = static_cast<uint32_t>(device_->info().multiprocessors);
  const auto one = timer_->time(1000, replays_, [&](int64_t) { return kernels_->empty(1, 32, stream); });
  if (!one) return one.status();
  const auto full =
      timer_->time(1000, replays_, [&](int64_t) { return kernels_->empty(multiprocessors, 384, stream); });
  if (!full) return full.status();
  ceilings.empty_us = one->us;
  ceilings.empty_full_us = full->us;
  return ceilings;
}

// The memory of a shape, and pools for all its sets.
Result<CallMemory> DeviceBench::prepare(const DeviceShape& shape) {
  Random random(kSeed);
  auto memory = CallMemory::make(*device_, shape, random);
  if (!memory) return memory;
  const Status filled =
      pool_.ensure(*device_, *kernels_, timer_->stream(), shape.kind, memory->set_bytes() * memory->sets());
  if (!filled) return filled;
  return memory;
}

// Calls once outside a graph (libraries load their kernels then) and looks at the results.
Result<Launch> DeviceBench::prepare_call(const Candidate& candidate, CallMemory& memory) {
  const auto workspace = candidate.workspace(memory, pool_);
  if (!workspace) return workspace.status();
  if (*workspace > workspace_.bytes()) {
    auto made = device_->allocate(*workspace);
    if (!made) return made.status();
    workspace_ = std::move(*made);
    // A library may ask for cleared counters, but never for a caller that clears them: garbage is what it will get.
    if (Status filled = workspace_.fill(0xff); !filled) return filled;
  }
  void* const stream = timer_->stream().get();
  const size_t bytes = *workspace;
  void* const scratch = workspace_.as<void>();
  Launch call = [&candidate, &memory, this, stream, bytes, scratch](int64_t set) {
    if (memory.shape().dense()) {
      flashmla_dense_decode_params params = memory.dense(pool_, set);
      params.workspace = scratch;
      params.workspace_bytes = bytes;
      params.stream = stream;
      return candidate.dense(params);
    }
    flashmla_sparse_decode_params params = memory.sparse(pool_, set);
    params.workspace = scratch;
    params.workspace_bytes = bytes;
    params.stream = stream;
    return candidate.sparse(params);
  };
  Status status = memory.poison_results();
  if (status) status = call(0);
  if (status) status = timer_->stream().synchronize();
  if (status) status = memory.check_results();
  if (!status) return status;
  return call;
}

Result<Timing> DeviceBench::cold(const CallMemory& memory, const Launch& call) {
  const int64_t sets = memory.sets();
  constexpr double kWarmUpMs = 20;  // the card may have been idle while this shape was prepared
  return timer_->time(
      cold_launches(memory), replays_, [&](int64_t n) { return call(n % sets); }, kWarmUpMs);
}

Status DeviceBench::measure_read(const CallMemory& memory, ShapeResult& result) {
  constexpr uint64_t kMostChecked = 50'000'000;  // pieces that the host folds in a moment
  const int64_t sets = memory.sets();
  const uint64_t read_pieces = pieces(memory.read(pool_, 0));
  if (checked_ != memory.shape().kind && read_pieces <= kMostChecked) {
    const auto folded = kernels_->fold(memory.read(pool_, sets - 1), timer_->stream());
    if (!folded) return folded.status();
    if (*folded != memory.expected_fold(pool_, sets - 1)) {
      return Status::failure("the plain read does not read the bytes it should");
    }
    checked_ = memory.shape().kind;
  }
  // A few replays of each grid, then the best one properly.
  constexpr int32_t kProbes = 2;
  const int64_t launches = cold_launches(memory);
  ReadGrid best;
  double best_us = 0;
  for (const ReadGrid& grid : read_grids(read_pieces)) {
    auto graph = timer_->capture(
        launches, [&](int64_t n) { return kernels_->read(grid, memory.read(pool_, n % sets), timer_->stream()); });
    if (!graph) return graph.status();
    const auto time = timer_->time(*graph, launches, kProbes);
    if (!time) return time.status();
    if (best_us > 0 && time->us >= best_us) continue;
    best = grid;
    best_us = time->us;
  }
  const auto time = timer_->time(launches, replays_, [&](int64_t n) {
    return kernels_->read(best, memory.read(pool_, n % sets), timer_->stream());
  });
  if (!time) return time.status();
  result.read = *time;
  result.read_grid = best.text();
  return {};
}

Status DeviceBench::measure(const Candidate& candidate, const DeviceShape& shape, ShapeResult& result) {
  auto memory = prepare(shape);
  if (!memory) return memory.status();
  result.unique_tokens = memory->selection().unique_tokens();
  result.unique_bytes = unique_bytes(shape, memory->selection());
  result.attended_bytes = attended_bytes(shape, memory->selection());
  result.sets = memory->sets();
  auto call = prepare_call(candidate, *memory);
  if (!call) return call.status();
  result.clocks_before = clocks_->read();
  const auto cold_time = cold(*memory, *call);
  if (!cold_time) return cold_time.status();
  result.cold = *cold_time;
  const auto warm = timer_->time(launches_for(result.cold.us, 1), replays_, [&](int64_t) { return (*call)(0); });
  if (!warm) return warm.status();
  result.warm = *warm;
  result.clocks_after = clocks_->read();
  return measure_read(*memory, result);
}

ShapeResult DeviceBench::measure(const Candidate& candidate, const DeviceShape& shape) {
  ShapeResult result;
  result.shape = shape;
  result.error = measure(candidate, shape, result).message();
  return result;
}

Status DeviceBench::time_transition(const Candidate& candidate, const DeviceShape& shape, Timing& timing) {
  auto memory = prepare(shape);
  if (!memory) return memory.status();
  auto call = prepare_call(candidate, *memory);
  if (!call) return call.status();
  const auto time = cold(*memory, *call);
  if (!time) return time.status();
  timing = *time;
  return {};
}

TransitionPoint DeviceBench::transition(const Candidate& candidate, const Candidate* baseline, int32_t query_rows) {
  TransitionPoint point;
  point.query_rows = query_rows;
  point.batch = transition_shape(query_rows, 8).batch;
  point.s_q = transition_shape(query_rows, 8).s_q;
  Status status = time_transition(candidate, transition_shape(query_rows, 8), point.heads_8);
  if (status) status = time_transition(candidate, transition_shape(query_rows, 16), point.heads_16);
  if (status) status = time_transition(candidate, transition_shape(query_rows, 64), point.heads_64);
  if (baseline != nullptr) {
    if (status) status = time_transition(*baseline, transition_shape(query_rows, 8), point.padded_8);
    if (status) status = time_transition(*baseline, transition_shape(query_rows, 16), point.padded_16);
  }
  point.error = status.message();
  return point;
}

}  // namespace flashmla::bench
