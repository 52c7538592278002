#include "orchestrator/engine/embedded/cpu/worker_pool.h"

#include "tests/support/catch.h"

using namespace sweep::engine::embedded;
using namespace sweep::engine::embedded::cpu;

TEST_CASE("worker pool: every piece runs exactly once, in every round") {
  for (const int threads : {1, 2, 5}) {
    WorkerPool pool(threads);
    CHECK(pool.threads() == threads);
    for (int64_t count = 0; count < 300; ++count) {
      std::vector<int> runs(static_cast<size_t>(count));
      pool.run(count, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
      CHECK(runs == std::vector<int>(static_cast<size_t>(count), 1));
    }
  }
}
