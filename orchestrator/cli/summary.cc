#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/base/file.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/report/result.h"
#include "orchestrator/report/summary.h"

namespace sweep::cli {

namespace {

struct SummaryOptions {
  std::string folder;
  bool markdown = false;
};

ExitCode summarise(const Context& context, const SummaryOptions& options) {
  std::filesystem::path path = options.folder;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "result.json";
  const auto text = base::read_file(path);
  if (!text)
    return fail(context, diag::make(diag::rule::file_unreadable, text.error().text(),
                                    "name a finished run's folder; `sweepctl run --resume --out DIR` finishes one"));
  const auto result = nlohmann::json::parse(*text, nullptr, false);
  const auto version = result.is_object() ? result.find("schema_version") : result.end();
  if (!result.is_object() || version == result.end() || *version != report::kResultVersion)
    return fail(context, diag::make_at(diag::rule::file_malformed, {.file = path.string()},
                                       fmt::format("not a result of schema_version {}", report::kResultVersion)));
  if (context.console.format() == Format::kJson)
    context.console.out(result.dump(2) + "\n");
  else
    context.console.out(options.markdown ? report::summary_markdown(result)
                                         : report::summary_text(result, context.console.colour_on_stdout()));
  return ExitCode::kGood;
}

}  // namespace

void add_summary(CLI::App& app, Action& action) {
  auto options = std::make_shared<SummaryOptions>();
  CLI::App* command = app.add_subcommand("summary", "A finished run's result, for the terminal or as Markdown");
  command->add_option("dir", options->folder, "The run's folder, or its result.json")->required()->type_name("DIR");
  command->add_flag("--markdown", options->markdown, "Markdown, as for a workflow's step summary");
  command->callback(
      [options, &action] { action = [options](Context& context) { return summarise(context, *options); }; });
}

}  // namespace sweep::cli
