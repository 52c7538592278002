#include "kernels/cpu/worker_pool.h"

#include <atomic>
#include <vector>

#include "tests/support/catch.h"

namespace flashmla::cpu {
namespace {

struct Job {
  explicit Job(int64_t units) : done(static_cast<size_t>(units)) {}
  std::vector<std::atomic<int>> done;
  std::vector<std::atomic<int>> inside = std::vector<std::atomic<int>>(64);
  std::atomic<bool> shared_thread = false;

  static void task(void* argument, int64_t unit, int32_t thread) {
    auto& job = *static_cast<Job*>(argument);
    if (job.inside[static_cast<size_t>(thread)].fetch_add(1) != 0) job.shared_thread = true;
    job.done[static_cast<size_t>(unit)].fetch_add(1);
    job.inside[static_cast<size_t>(thread)].fetch_sub(1);
  }
};

TEST_CASE("worker pool: every unit is done exactly once before run() returns, job after job") {
  const int32_t threads = GENERATE(1, 2, 4, 9);
  WorkerPool pool(threads);
  CHECK(pool.size() == threads);
  for (const int64_t units : {0, 1, 2, 3, 7, 100, 1, 1000}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      Job job(units);
      pool.run(units, Job::task, &job);
      for (const auto& count : job.done) REQUIRE(count == 1);
      REQUIRE_FALSE(job.shared_thread);
    }
  }
}

TEST_CASE("worker pool: it can be destroyed without ever having run") {
  WorkerPool(5);
}

}  // namespace
}  // namespace flashmla::cpu
