#include "orchestrator/engine/embedded/serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/embedded.h"
#include "orchestrator/engine/embedded/api.h"
#include "orchestrator/engine/embedded/cpu/decoder.h"
#include "orchestrator/engine/embedded/cuda/decoder.h"
#include "orchestrator/engine/embedded/event_log.h"
#include "orchestrator/engine/embedded/http_server.h"

namespace sweep::engine::embedded {

namespace {

using nlohmann::ordered_json;

constexpr int kParentSignal = SIGUSR1;
constexpr int64_t kCheckMs = 250;

// Signals are taken synchronously by the main thread. The parent's death sends kParentSignal; the kernel sends it also
// when only the thread that started us ends, so it is a reason to look, not to stop.
class StopSignals {
 public:
  explicit StopSignals(bool with_parent) : with_parent_(with_parent), parent_(::getppid()) {
    sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, kParentSignal}) sigaddset(&signals_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    // The reader of the log may go away before the server does.
    ::signal(SIGPIPE, SIG_IGN);
    if (with_parent_) ::prctl(PR_SET_PDEATHSIG, kParentSignal);
  }

  // Returns why to stop; `engine` may be a reason, too.
  std::string wait(const Engine& engine) const {
    while (true) {
      if (with_parent_ && ::getppid() != parent_) return "the parent process ended";
      if (engine.failure()) return "the engine failed";
      const timespec timeout = {kCheckMs / 1000, kCheckMs % 1000 * 1'000'000};
      const int signal = ::sigtimedwait(&signals_, nullptr, &timeout);
      if (signal == SIGTERM) return "SIGTERM";
      if (signal == SIGINT) return "SIGINT";
      if (signal == SIGHUP) return "SIGHUP";
    }
  }

 private:
  bool with_parent_;
  pid_t parent_;
  sigset_t signals_ = {};
};

void log_start(EventLog& log, const KernelLibrary& kernels, const ModelConfig& config, const EngineOptions& options) {
  const flashmla_build& build = kernels.build();
  log.write({{"event", "kernels"},
             {"path", kernels.path()},
             {"sha256", kernels.sha256()},
             {"abi_version", build.abi_version},
             {"arch", build.arch},
             {"variant", build.variant},
             {"isa", build.isa},
             {"compiler", build.compiler}});
  log.write({{"event", "model"},
             {"architecture", kArchitecture},
             {"layers", config.num_hidden_layers},
             {"hidden_size", config.hidden_size},
             {"heads", config.num_attention_heads},
             {"vocab_size", config.vocab_size},
             {"kv_layout", config.kv_layout}});
  ordered_json settings = {{"event", "settings"},
                           {"version", SWEEPCTL_VERSION},
                           {"acceptance", options.acceptance_length != 0 ? "explicit" : "measured"}};
  if (options.acceptance_length != 0) settings["acceptance_length"] = options.acceptance_length;
  settings["num_draft_tokens"] = options.num_draft_tokens;
  settings["max_num_seqs"] = options.max_num_seqs;
  settings["max_model_len"] = options.max_model_len;
  settings["threads"] = options.threads;
  settings["seed"] = options.seed;
  log.write(settings);
}

diag::Result<std::unique_ptr<Decoder>> make_decoder(const Checkpoint& model, KernelLibrary& kernels,
                                                    const ServeOptions& options) {
  const bool wants_cuda = options.device == Device::kAuto ? kernels.is_cuda() : options.device == Device::kCuda;
  if (wants_cuda != kernels.is_cuda()) {
    return diag::fail(diag::rule::embedded_options,
                      fmt::format("--device {} does not fit the kernel library \"{}\", which is for {}",
                                  wants_cuda ? "cuda" : "cpu", kernels.path(), kernels.build().arch));
  }
  const int64_t blocks = cache_blocks(options.engine, model.config);
  const int64_t positions = positions_needed(options.engine);
  if (!wants_cuda) {
    if (options.ranks != 1) {
      return diag::fail(diag::rule::embedded_options,
                        fmt::format("a CPU cannot share the model among {} ranks", options.ranks));
    }
    const cpu::CpuDecoder::Options wanted = {
        .threads = options.engine.threads, .num_blocks = blocks, .positions = positions};
    return std::unique_ptr<Decoder>(std::make_unique<cpu::CpuDecoder>(model, kernels, wanted));
  }
  // A chunk of a prompt comes from several requests, each of which may leave a group of query tokens half full.
  const int64_t fill = options.engine.max_num_seqs * FLASHMLA_MAX_QUERY_TOKENS;
  auto decoder = cuda::CudaDecoder::make(model, kernels,
                                         {.library = "",
                                          .ranks = options.ranks,
                                          .num_blocks = blocks,
                                          .sequences = options.engine.max_num_seqs,
                                          .positions = positions,
                                          .rows = options.engine.prefill_tokens + fill});
  if (!decoder) return diag::fail(decoder.error());
  return std::unique_ptr<Decoder>(std::move(decoder).value());
}

std::string folder_name(const std::filesystem::path& folder) {
  const auto absolute = std::filesystem::absolute(folder).lexically_normal();
  return (absolute.has_filename() ? absolute : absolute.parent_path()).filename().string();
}

}  // namespace

diag::Result<diag::Done> serve(const ServeOptions& asked) {
  const StopSignals signals(asked.with_parent);
  EventLog log;
  ServeOptions options = asked;
  auto model = load_checkpoint(options.model);
  if (!model) return diag::fail(model.error());
  if (auto problem = options_problem(options.engine, model->config); !problem.empty()) {
    return diag::fail(diag::rule::embedded_options, std::move(problem));
  }
  auto kernels = KernelLibrary::load({.path = options.kernels, .threads = options.engine.threads});
  if (!kernels) return diag::fail(kernels.error());
  constexpr int64_t kCpuPrefill = 512;
  constexpr int64_t kCudaPrefill = 2048;
  if (options.engine.prefill_tokens == 0)
    options.engine.prefill_tokens = kernels->is_cuda() ? kCudaPrefill : kCpuPrefill;
  log_start(log, *kernels, model->config, options.engine);

  auto decoder = make_decoder(*model, *kernels, options);
  if (!decoder) return diag::fail(decoder.error());
  log.write({{"event", "device"}, {"name", (*decoder)->device_name()}, {"tp", (*decoder)->tensor_parallel()}});
  model->tensors.clear();  // each decoder has its own copy
  Engine engine(model->config, **decoder, options.engine, log);
  Api api(engine, *model, *kernels,
          options.served_model_name.empty() ? folder_name(options.model) : options.served_model_name);
  auto server = HttpServer::start(
      {.port = options.port}, [&](const HttpRequest& request, ResponseWriter& writer) { api.answer(request, writer); });
  if (!server) return diag::fail(server.error());
  log.write({{"event", "listening"}, {"port", (*server)->port()}, {"pid", ::getpid()}, {"unix_ns", base::unix_ns()}});
  if (!options.port_file.empty()) {
    auto written = base::write_file_atomic(options.port_file, fmt::format("{}\n", (*server)->port()));
    if (!written) return diag::fail(diag::rule::embedded_listen, written.error().text());
  }
  log.write({{"event", "stopping"}, {"reason", signals.wait(engine)}, {"unix_ns", base::unix_ns()}});
  if (auto failure = engine.failure()) return diag::fail(std::move(*failure));
  return diag::Done{};
}

}  // namespace sweep::engine::embedded
