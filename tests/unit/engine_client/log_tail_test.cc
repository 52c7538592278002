#include "orchestrator/engine/log_tail.h"

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/engine.h"
#include "tests/support/catch.h"

using namespace sweep;

namespace {

diag::Diagnostic told_by(const std::string& text) {
  auto folder = base::TempDir::create().value();
  const auto log = folder.path() / "engine.log";
  REQUIRE(base::write_file_atomic(log, text).has_value());
  return engine::failure_told_by(log, diag::rule::engine_died, "the engine ended by itself: exit status 1", "help");
}

std::string_view rule_of(const diag::Diagnostic& diagnostic) {
  return diag::rule_info(diagnostic.rule).slug;
}

}  // namespace

TEST_CASE("log tail: an engine's end is reported by the cause that its log names") {
  CHECK(rule_of(told_by("[TP0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")) ==
        "engine/out-of-memory");
  CHECK(rule_of(told_by("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n")) ==
        "engine/out-of-memory");
  CHECK(
      rule_of(told_by("ERROR: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already "
                      "in use\n")) == "engine/port-taken");
  CHECK(rule_of(told_by("CUDA error: an illegal memory access was encountered\n")) == "engine/device-error");
  CHECK(rule_of(told_by("Traceback (most recent call last):\n")) == "engine/died");
  CHECK(rule_of(told_by("all is well\n")) == "engine/died");
  CHECK(rule_of(told_by("")) == "engine/died");
}

TEST_CASE("log tail: the bundled engine's own words are understood") {
  const auto failed = told_by(
      R"({"event":"error","rule":"embedded/device","message":"rank 1 of 2: flashmla_sparse_decode failed: unsupported"})"
      "\n");
  CHECK(rule_of(failed) == "engine/device-error");
  CHECK(contains(failed.message, "rank 1 of 2: flashmla_sparse_decode failed"));
  CHECK(rule_of(told_by("sweepctl: error: the model cannot be put on the GPU: rank 0 of 2: cudaMalloc failed: out of "
                        "memory [embedded/device]\n")) == "engine/out-of-memory");
  const auto refused = told_by("sweepctl: error: cannot load \"x.so\": no such file [embedded/kernel-library]\n");
  CHECK(rule_of(refused) == "engine/died");
  CHECK(contains(refused.message, "its log says: sweepctl: error: cannot load"));
}

TEST_CASE("log tail: what explains most is quoted, not what follows from it") {
  const auto told = told_by(
      "Traceback (most recent call last):\n"
      "NCCL error: remote process exited\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB\n");
  CHECK(told.message ==
        "the engine ended by itself: exit status 1; its log says: torch.OutOfMemoryError: CUDA out of memory. Tried to "
        "allocate 20.00 GiB");
}

TEST_CASE("log tail: a traceback is quoted by the exception at its end") {
  const auto told = told_by(
      "Traceback (most recent call last):\n"
      "  File \"server.py\", line 1, in main\n"
      "    load()\n"
      "ValueError: The checkpoint has no draft head\n");
  CHECK(contains(told.message, "its log says: ValueError: The checkpoint has no draft head"));
}

TEST_CASE("log tail: only the end of a long log is read") {
  CHECK(rule_of(told_by("CUDA out of memory\n" + std::string(size_t{5} << 20, 'x') + "\nend\n")) == "engine/died");
  CHECK(engine::log_size("/no/such/file") == 0);
}
