#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/cli/command.h"
#include "orchestrator/schema/json_schema.h"
#include "orchestrator/schema/reference.h"

namespace sweep::cli {

namespace {

struct SchemaOptions {
  std::string kind;
  bool markdown = false;
};

ExitCode print_schema(const Context& context, const SchemaOptions& options) {
  const auto kind = schema::parse_choice<schema::FileKind>(options.kind);
  const bool markdown = options.markdown || context.console.format() == Format::kMarkdown;
  context.console.out(markdown ? schema::reference_page(*kind) : schema::json_schema_text(*kind));
  return ExitCode::kGood;
}

}  // namespace

void add_schema(CLI::App& app, Action& action) {
  auto options = std::make_shared<SchemaOptions>();
  CLI::App* command = app.add_subcommand("schema", "JSON Schema of a kind of file for editors, or its reference page");
  command->footer(
      "Examples:\n"
      "  sweepctl schema matrix > matrix.schema.json   JSON Schema, draft-07\n"
      "  sweepctl schema recipe --markdown             the reference page\n\n"
      "A checkout has all schemas in matrix/schema/. Editors with yaml-language-server read a first line like\n"
      "  # yaml-language-server: $schema=schema/matrix.schema.json\n"
      "or, for files that must not be touched, a setting like (VS Code)\n"
      "  \"yaml.schemas\": { \"matrix/schema/changelog.schema.json\": \"changelog/*.yaml\" },\n"
      "  \"json.schemas\": [{ \"fileMatch\": [\"matrix/models/*.json\"], \"url\": \"./matrix/schema/pin.schema.json\" "
      "}]\n\n"
      "Both come from the tables that `sweepctl validate` decodes with. The schema refuses nothing that validate "
      "accepts;\n"
      "what spans files is checked by validate only.");
  command->add_option("kind", options->kind, "The kind of file")
      ->required()
      ->type_name(fmt::format("{}", fmt::join(schema::choice_names<schema::FileKind>(), "|")))
      ->check(CLI::IsMember(schema::choice_names<schema::FileKind>()).description(""));
  command->add_flag("--markdown", options->markdown, "The reference page; the same as --format markdown");
  command->callback(
      [options, &action] { action = [options](Context& context) { return print_schema(context, *options); }; });
}

}  // namespace sweep::cli
