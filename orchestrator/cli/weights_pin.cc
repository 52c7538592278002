#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/cli/terminal_progress.h"
#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/cli.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/hub/former_pin.h"
#include "orchestrator/hub/model_id.h"
#include "orchestrator/hub/pin_model.h"
#include "orchestrator/pipeline/hash_progress.h"
#include "orchestrator/weights/pin_folder.h"

namespace sweep::cli {

namespace {

namespace fs = std::filesystem;
using pipeline::Stage;

struct PinOptions {
  std::string on_hub;  // MODEL or MODEL@REV
  bool resolve = false;
  std::string ca_file;
  int timeout_s = 60;
  std::string folder;
  std::vector<std::string> listing;
  std::string index;
  std::string model;
  std::string revision;
  std::string generator;
  std::string output;
};

constexpr const char* kFooter =
    "Examples:\n"
    "  sweepctl weights pin deepseek-ai/DeepSeek-V4.1-Flash@dba1be0a40aa45a94ab051997016db3960a90277 \\\n"
    "      --output matrix/models/deepseek-v4.1-flash.json\n"
    "  sweepctl weights pin ORG/NAME@main --resolve        the commit that the branch is now is printed and pinned\n"
    "  sweepctl weights pin --from-dir DIR --model ORG/NAME --revision COMMIT\n"
    "  sweepctl weights pin --from-listing tree.json --model ORG/NAME --revision COMMIT\n\n"
    "From the hub, no weights are downloaded: the pin holds what the hub lists (sizes, SHA-256 of large files, git\n"
    "blob ids of small ones), checked against the index of the shards and against the hub's other answers. It is\n"
    "written only when all of them agree. Without --output it goes to standard output, whatever the --format.\n\n"
    "Environment:\n"
    "  HF_ENDPOINT             the hub, https://huggingface.co\n"
    "  HF_TOKEN                for private and gated models; else the file HF_TOKEN_PATH, HF_HOME/token or\n"
    "                          ~/.cache/huggingface/token. Sent to HF_ENDPOINT only, never to where it redirects\n"
    "  HF_HUB_OFFLINE          1: ask nobody\n"
    "  HF_HUB_ETAG_TIMEOUT     seconds of a request for headers, in place of --timeout\n"
    "  http_proxy, https_proxy, no_proxy; SSL_CERT_FILE, SSL_CERT_DIR, CURL_CA_BUNDLE\n\n"
    "Exit codes: 0 pinned   1 no such model or commit, no access, or answers that disagree   2 wrong usage\n"
    "  3 the hub could not be asked (a retry may help)   130 interrupted";

ExitCode usage(const Context& context, const std::string& message) {
  return fail(context, diag::make(diag::rule::cli_usage, message, "run `sweepctl weights pin --help`"));
}

// What decides where several things are wrong (exit_code.h).
ExitCode exit_code_of_all(const diag::Diagnostics& diagnostics) {
  for (const ExitCode code : {ExitCode::kCouldNotRun, ExitCode::kUsage, ExitCode::kProblems})
    for (const diag::Diagnostic& diagnostic : diagnostics.items())
      if (diagnostic.severity == diag::Severity::kError && exit_code_of(diagnostic) == code) return code;
  return ExitCode::kGood;
}

// One document on standard output: the pin itself, or the summary of a pin that went to a file.
void print_summary(const Context& context, const PinOptions& options, const weights::Pin& pin,
                   const diag::Diagnostics& diagnostics) {
  uint64_t bytes = 0;
  for (const weights::PinnedFile& file : pin.files) bytes += file.size.value_or(0);
  if (context.console.format() != Format::kJson) {
    context.console.out(fmt::format("{}: {} files, {:.3f} GB, of {} at {}\n", options.output, pin.files.size(),
                                    static_cast<double>(bytes) * 1e-9, pin.model, pin.revision));
    return;
  }
  nlohmann::json summary = diag::to_json(diagnostics);
  summary["output"] = options.output;
  summary["model"] = pin.model;
  summary["revision"] = pin.revision;
  summary["files"] = pin.files.size();
  summary["bytes"] = bytes;
  summary["index"] = nullptr;
  if (pin.index) summary["index"] = {{"total_size", pin.index->total_size}, {"tensor_count", pin.index->tensor_count}};
  context.console.out(summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

// Reports, and writes the pin if there is one.
ExitCode finish(const Context& context, const PinOptions& options, const std::optional<weights::Pin>& pin,
                diag::Diagnostics diagnostics) {
  if (pin && !options.output.empty()) {
    diag::Diagnostics no_pin_there;
    std::error_code error;
    if (fs::exists(options.output, error))
      if (const auto former = weights::read_pin(options.output, no_pin_there))
        hub::compare_with_former(*former, *pin, diagnostics);
  }
  diagnostics.normalise();
  if (!pin) {
    context.console.report(diagnostics, {});
    return exit_code_of_all(diagnostics);
  }
  // Standard output is for the pin or its summary.
  for (const diag::Diagnostic& diagnostic : diagnostics.items()) context.console.report(diagnostic);
  if (options.output.empty()) {
    context.console.out(weights::to_text(*pin));
    return ExitCode::kGood;
  }
  if (const auto written = weights::write_pin(options.output, *pin); !written) return fail(context, written.error());
  print_summary(context, options, *pin, diagnostics);
  return ExitCode::kGood;
}

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

std::optional<weights::Pin> ask_hub(const Context& context, const PinOptions& options, const hub::ModelRevision& wanted,
                                    diag::Diagnostics& diagnostics) {
  auto settings = hub::settings_from(environment_variable, diagnostics);
  if (!settings) return std::nullopt;
  settings->ca_file = options.ca_file;
  settings->timeout = std::chrono::seconds(options.timeout_s);
  const auto progress = make_progress(context.console, context.quiet);
  const auto on_step = [&](const std::string& step) { progress->begin(Stage::kWeights, step); };
  hub::Connection connection(
      {.settings = std::move(*settings),
       .policy = {.seed = static_cast<uint64_t>(base::unix_ns()) ^ static_cast<uint64_t>(::getpid())},
       .on_retry =
           [&](const hub::Retry& retry) {
             progress->begin(Stage::kWeights, fmt::format("waiting {:.1f} s, then try {} of {}: {}",
                                                          std::chrono::duration<double>(retry.wait).count(),
                                                          retry.next_try, retry.tries, retry.reason));
           },
       .stop = context.stop});
  std::optional<hub::ModelRevision> commit = wanted;
  if (!hub::is_commit(wanted.revision)) {
    on_step(fmt::format("asking which commit \"{}\" is now", wanted.revision));
    commit = hub::resolve_commit(connection, wanted, diagnostics);
  }
  std::optional<weights::Pin> pin;
  if (commit) pin = hub::pin_from_hub(connection, *commit, on_step, diagnostics);
  if (pin)
    progress->end(Stage::kWeights, fmt::format("{}: {} files of {}", connection.name(), pin->files.size(), pin->model));
  else
    progress->fail(Stage::kWeights, fmt::format("{}: nothing is pinned", connection.name()));
  return pin;
}

ExitCode pin_on_hub(const Context& context, const PinOptions& options) {
  hub::ModelRevision wanted = hub::split_model_revision(options.on_hub);
  if (!options.revision.empty()) {
    if (!wanted.revision.empty())
      return usage(context, fmt::format("two revisions: \"{}\" in \"{}\", and --revision {}", wanted.revision,
                                        options.on_hub, options.revision));
    wanted.revision = options.revision;
  }
  if (const auto checked = hub::check_model(wanted.model); !checked) return fail(context, checked.error());
  const auto checked = options.resolve ? hub::check_resolvable(wanted) : hub::check_commit(wanted);
  if (!checked) return fail(context, checked.error());
  diag::Diagnostics diagnostics;
  const auto pin = ask_hub(context, options, wanted, diagnostics);
  return finish(context, options, pin, std::move(diagnostics));
}

ExitCode pin_listing(const Context& context, const PinOptions& options) {
  hub::RecordedListing recorded{.wanted = {.model = options.model, .revision = options.revision},
                                .pages = {options.listing.begin(), options.listing.end()},
                                .index = options.index};
  diag::Diagnostics diagnostics;
  const auto pin = hub::pin_from_listing(recorded, diagnostics);
  return finish(context, options, pin, std::move(diagnostics));
}

ExitCode pin_folder(const Context& context, const PinOptions& options) {
  if (!options.revision.empty() && !hub::is_commit(options.revision))
    return usage(context, fmt::format("--revision {} is no commit of 40 lower-case hex digits", options.revision));
  weights::PinSource source{.model = options.model};
  if (!options.revision.empty()) source.revision = options.revision;
  if (!options.generator.empty()) source.generator = options.generator;
  const auto progress = make_progress(context.console, context.quiet);
  progress->begin(Stage::kWeights, fmt::format("hashing {}", options.folder));
  diag::Diagnostics diagnostics;
  const auto pin = weights::pin_from_dir(options.folder, source, {.progress = pipeline::show_hashing(*progress)},
                                         diagnostics, context.stop);
  if (pin)
    progress->end(Stage::kWeights, fmt::format("{} files hashed", pin->files.size()));
  else
    progress->fail(Stage::kWeights, "nothing is pinned");
  return finish(context, options, pin, std::move(diagnostics));
}

// An option that was given, and the one source that it belongs to.
struct Belongs {
  const char* option;
  bool given;
  bool fits;
};

ExitCode pin(const Context& context, const PinOptions& options) {
  const bool from_hub = !options.on_hub.empty();
  const bool from_folder = !options.folder.empty();
  const bool from_listing = !options.listing.empty();
  if (static_cast<int>(from_hub) + static_cast<int>(from_folder) + static_cast<int>(from_listing) != 1)
    return usage(context, "name one source of the pin: MODEL@REV, --from-dir DIR or --from-listing FILE");
  const std::array<Belongs, 6> belongs{{{"--model", !options.model.empty(), !from_hub},
                                        {"--resolve", options.resolve, from_hub},
                                        {"--ca-file", !options.ca_file.empty(), from_hub},
                                        {"--index", !options.index.empty(), from_listing},
                                        {"--generator", !options.generator.empty(), from_folder},
                                        {"--from-dir", from_folder, from_folder}}};
  for (const Belongs& option : belongs)
    if (option.given && !option.fits)
      return usage(context, fmt::format("{} has no meaning for {}", option.option,
                                        from_hub      ? "a model on the hub"
                                        : from_folder ? "--from-dir"
                                                      : "--from-listing"));
  if (!from_hub && options.model.empty()) return usage(context, "--model is required");
  if (from_listing && options.revision.empty()) return usage(context, "--revision is required");
  // Found before the hub is asked, or terabytes are hashed.
  std::error_code error;
  const fs::path folder = fs::path(options.output).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error))
    return fail(context, diag::make(diag::rule::file_unwritable, fmt::format("cannot write {}: there is no folder {}",
                                                                             options.output, folder.string())));
  if (from_hub) return pin_on_hub(context, options);
  return from_folder ? pin_folder(context, options) : pin_listing(context, options);
}

}  // namespace

void add_weights_pin(CLI::App& weights_command, Action& action) {
  constexpr int kLongestTimeout = 86'400;
  auto options = std::make_shared<PinOptions>();
  CLI::App* command = weights_command.add_subcommand(
      "pin", "Write what identifies every file of a model at one commit, from the hub, its listing or a folder");
  command->footer(kFooter);
  command->add_option("hub-model", options->on_hub, "A model on the hub and its commit, 40 hex digits")
      ->type_name("MODEL@REV");
  command->add_option("--revision", options->revision, "The commit, if it is not in MODEL@REV; of --from-dir: optional")
      ->type_name("REV")
      ->default_str("");
  command->add_flag("--resolve", options->resolve, "REV is a branch or tag: ask the hub which commit it is now");
  command->add_option("--output", options->output, "The pin file, replaced only by a whole pin")
      ->type_name("FILE")
      ->default_str("standard output");
  command->add_option("--ca-file", options->ca_file, "A certificate authority (PEM) to trust beside the system's")
      ->type_name("FILE")
      ->default_str("");
  command->add_option("--timeout", options->timeout_s, "Seconds that one request may take")
      ->type_name("S")
      ->check(CLI::Range(1, kLongestTimeout).description(""));
  command->add_option("--from-dir", options->folder, "Hash the files of this folder instead of asking the hub")
      ->type_name("DIR");
  command->add_option("--from-listing", options->listing, "Read recorded replies of the hub's tree API, a file a page")
      ->type_name("FILE")
      ->default_str("")
      ->expected(1)
      ->take_all();
  command->add_option("--index", options->index, "Of --from-listing: the model's index, for the totals")
      ->type_name("FILE");
  command->add_option("--model", options->model, "Of --from-dir and --from-listing: the model's name, ORG/NAME")
      ->type_name("MODEL");
  command->add_option("--generator", options->generator, "Of --from-dir: how the model was made, if it is on no hub")
      ->type_name("TEXT");
  command->callback([options, &action] { action = [options](Context& context) { return pin(context, *options); }; });
}

}  // namespace sweep::cli
