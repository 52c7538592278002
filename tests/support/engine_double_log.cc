#include "tests/support/engine_double_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

namespace sweep::test::double_log {

namespace {

constexpr const char* kTime = "[2026-09-14 11:02:03";

}  // namespace

int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void log(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
}

void log_start(const EngineDoubleOptions& o) {
  switch (o.dialect) {
    case Dialect::kSglang:
      log(
          fmt::format("{}] server_args=ServerArgs(model_path='m', served_model_name='{}', tp_size=1, "
                      "speculative_algorithm='DSPARK', speculative_dspark_block_size={}, decode_log_interval={}, "
                      "disable_radix_cache=True)",
                      kTime, o.model, kDrafts, o.steps_per_line));
      log(fmt::format("{} TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=21.90 GB",
                      kTime));
      return;
    case Dialect::kVllm:
      log("(APIServer pid=101) INFO 09-14 11:40:01 [api_server.py:1990] vLLM API server version 0.30.0");
      log(fmt::format(
          "(EngineCore_DP0 pid=222) INFO 09-14 11:40:03 [core.py:94] Initializing a V1 LLM engine (v0.30.0) "
          "with config: model='{}', kv_cache_dtype=fp8, speculative_config=SpeculativeConfig("
          "method='dspark', num_spec_tokens={})",
          o.model, kDrafts));
      return;
    case Dialect::kTrtllm:
      log("[TensorRT-LLM] TensorRT LLM version: 1.2.0");
      return;
    case Dialect::kAtom:
      log(
          fmt::format("[atom] 2026-09-14 12:00:04 INFO Forced speculative acceptance ON: mean acceptance length 5.7000 "
                      "over {} draft positions (per-position rates [1.0, 1.0, 1.0, 1.0, 0.7, 0.0, 0.0]). Output text "
                      "is not meaningful.",
                      kDrafts));
      return;
    case Dialect::kEmbedded:
      log(fmt::format(R"({{"event":"starting","unix_ns":{}}})", unix_ns()));
      return;
  }
}

void log_ready(const EngineDoubleOptions& o) {
  if (o.dialect == Dialect::kSglang) log(fmt::format("{}] The server is fired up and ready to roll!", kTime));
  if (o.dialect != Dialect::kEmbedded) log("INFO:     Application startup complete.");
}

void log_out_of_memory() {
  log("Traceback (most recent call last):");
  log("  File \"model_runner.py\", line 301, in load");
  log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139 GiB");
}

void log_compilation() {
  log("[2026-09-14 11:02:03 TP0] DeepGEMM JIT compilation of <gemm_fp8_fp4> begins to compile kernel");
}

void log_prefill(int64_t new_tokens, int64_t cached_tokens) {
  log(
      fmt::format("{} TP0] Prefill batch, #new-seq: 1, #new-token: {}, #cached-token: {}, full token usage: 0.00, "
                  "#running-req: 0, #queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): "
                  "40590.66",
                  kTime, new_tokens, cached_tokens));
}

void log_window(Dialect dialect, const LoggedWindow& window) {
  const auto [steps, accepted, begin_ns] = window;
  const double mean = 1.0 + static_cast<double>(accepted) / static_cast<double>(steps);
  if (dialect == Dialect::kSglang)
    log(
        fmt::format("{} TP0] Decode batch, #running-req: 1, #full token: 8448, full token usage: 0.00, accept len: "
                    "{:.2f}, accept rate: {:.2f}, cuda graph: True, gen throughput (token/s): 919.21, #queue-req: 0",
                    kTime, mean, (mean - 1) / kDrafts));
  if (dialect == Dialect::kVllm)
    log(
        fmt::format("(APIServer pid=101) INFO 09-14 11:41:23 [metrics.py:120] SpecDecoding metrics: Mean acceptance "
                    "length: {:.2f}, Accepted throughput: 332.10 tokens/s, Drafted throughput: 450.00 tokens/s, "
                    "Accepted: {} tokens, Drafted: {} tokens, Per-position acceptance rate: 1.000, 1.000, 1.000, "
                    "1.000, 0.700, 0.000, 0.000, Avg Draft acceptance rate: 67.1%",
                    mean, accepted, steps * kDrafts));
  if (dialect == Dialect::kEmbedded)
    log(fmt::format(R"({{"event":"decode_window","unix_ns_begin":{},"unix_ns_end":{},"steps":{},"accepted":{}}})",
                    begin_ns, unix_ns(), steps, accepted));
}

}  // namespace sweep::test::double_log
