// sweepctl-embedded: the embedded engine as its own process.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/embedded.h"
#include "orchestrator/engine/embedded/make_model.h"
#include "orchestrator/engine/embedded/model_shapes.h"
#include "orchestrator/engine/embedded/serve.h"

namespace {

using namespace sweep;
using namespace sweep::engine::embedded;

constexpr int kExitUsage = 2;
constexpr int kExitCannotRun = 3;
constexpr int kExitBug = 70;

// A step of the small model has too little work for more threads.
int default_threads() {
  constexpr unsigned kMost = 16;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMost));
}

int report(const diag::Diagnostic& diagnostic) {
  std::fputs(diag::render_text(diagnostic, diag::SourceMap()).c_str(), stderr);
  return diagnostic.rule == diag::rule::embedded_options ? kExitUsage : kExitCannotRun;
}

void add_make_model(CLI::App& app, std::string& folder, std::string& shape, MakeModelOptions& options) {
  auto* command = app.add_subcommand("make-model", "Write the small deterministic model that the engine serves");
  command->add_option("DIR", folder, "Folder to make; left alone if it already holds exactly this model")->required();
  command->add_option("--seed", options.seed, "Seed of the weights")->capture_default_str();
  std::vector<std::string> names;
  std::string text;
  for (const ModelShape& known : model_shapes()) {
    names.emplace_back(known.name);
    text += "\n  " + std::string(known.name) + ": " + std::string(known.covers);
  }
  command->add_option("--shape", shape, "Which model")->check(CLI::IsMember(names))->capture_default_str();
  command->footer("Shapes:" + text);
}

void add_serve(CLI::App& app, ServeOptions& options, std::string& acceptance, std::string& device) {
  auto* command = app.add_subcommand("serve", "Serve a model on 127.0.0.1 with an OpenAI-compatible API");
  EngineOptions& engine = options.engine;
  command->add_option("--model", options.model, "Model folder")->required();
  command->add_option("--kernels", options.kernels, "Kernel library (C API of flashmla.h)")->required();
  command->add_option("--port", options.port, "Port; 0 takes a free one")->check(CLI::Range(0, 65535));
  command->add_option("--port-file", options.port_file, "File that gets the port once requests are answered");
  command->add_option("--acceptance", acceptance, "How drafts are accepted")
      ->check(CLI::IsMember({"explicit", "measured"}))
      ->capture_default_str();
  command->add_option("--acceptance-length", engine.acceptance_length,
                      "Mean tokens committed per verification step, 1 to draft tokens + 1 (explicit only)");
  command->add_option("--num-draft-tokens", engine.num_draft_tokens, "Tokens drafted per step; 0 decodes plainly")
      ->capture_default_str();
  command->add_option("--seed", engine.seed, "Seed of sampling and of the acceptance schedule")->capture_default_str();
  command->add_option("--threads", engine.threads, "Threads of the engine and of the kernels")->capture_default_str();
  command->add_option("--max-num-seqs", engine.max_num_seqs, "Requests in one batch")->capture_default_str();
  command->add_option("--max-model-len", engine.max_model_len, "Prompt and generated tokens of one request")
      ->capture_default_str();
  command->add_option("--kv-blocks", engine.kv_blocks, "Blocks of the KV cache; 0 holds a full batch")
      ->capture_default_str();
  command->add_option("--served-model-name", options.served_model_name, "Name in the API; default: the folder's");
  command->add_option("--device", device, "What computes; auto: what the kernel library is for")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--tp-size", options.ranks, "GPUs that share the model (tensor parallel)")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  command
      ->add_option("--prefill-tokens", engine.prefill_tokens,
                   "Most prompt tokens between two decode steps; 0: 512 on a CPU, 2048 on GPUs")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  command->add_flag("--with-parent", options.with_parent, "Stop when the parent process ends");
}

// Empty if the two acceptance options agree.
const char* acceptance_problem(const std::string& acceptance, const CLI::App& serve_command) {
  const bool has_length = serve_command.count("--acceptance-length") > 0;
  if (acceptance == "explicit" && !has_length) return "--acceptance explicit needs --acceptance-length";
  if (acceptance == "measured" && has_length) return "--acceptance-length needs --acceptance explicit";
  return "";
}

int run(int argc, char** argv) {
  CLI::App app("The embedded engine of sweepctl: a small model with real attention kernels", "sweepctl-embedded");
  app.require_subcommand(1);
  app.set_version_flag("--version", SWEEPCTL_VERSION);
  std::string folder;
  MakeModelOptions make_options;
  ServeOptions serve_options;
  serve_options.engine.threads = default_threads();
  serve_options.engine.prefill_tokens = 0;
  std::string acceptance = "measured";
  std::string shape(model_shapes().front().name);
  add_make_model(app, folder, shape, make_options);
  std::string device = "auto";
  add_serve(app, serve_options, acceptance, device);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (app.got_subcommand("make-model")) {
    make_options.config = find_model_shape(shape)->config;
    auto made = make_model(folder, make_options);
    return made ? 0 : report(made.error());
  }
  const auto* command = app.get_subcommand("serve");
  if (const std::string problem = acceptance_problem(acceptance, *command); !problem.empty()) {
    return report(diag::make(diag::rule::embedded_options, problem));
  }
  if (acceptance == "explicit" && serve_options.engine.acceptance_length == 0) {
    return report(
        diag::make(diag::rule::embedded_options, "an acceptance length of 0 is outside 1 to draft tokens + 1"));
  }
  serve_options.device = device == "cpu" ? Device::kCpu : device == "cuda" ? Device::kCuda : Device::kAuto;
  auto served = serve(serve_options);
  if (served) return 0;
  const int code = report(served.error());
  // What is left of a GPU that failed may hang as it is tidied up.
  if (served.error().rule == diag::rule::embedded_device) std::_Exit(code);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("sweepctl-embedded: out of memory\n", stderr);
    return kExitCannotRun;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "sweepctl-embedded: internal error: %s\n", exception.what());
    return kExitBug;
  }
}
