#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/diag/rule_examples.h"
#include "orchestrator/diag/rules.h"
#include "orchestrator/diag/rules/cli.h"

namespace sweep::cli {

namespace {

struct ExplainOptions {
  std::string rule;
  bool list = false;
};

// Words flowed into lines of at most `width` columns.
std::string wrapped(std::string_view text, size_t width) {
  std::string out;
  size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (column != 0 && column + 1 + word.size() > width) {
      out += '\n';
      column = 0;
    }
    if (column != 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

nlohmann::json to_json(const diag::RuleInfo& rule) {
  nlohmann::json json = {{"rule", rule.slug},
                         {"severity", diag::severity_name(rule.severity)},
                         {"summary", rule.summary},
                         {"explanation", rule.explanation},
                         {"example", nullptr}};
  if (const diag::RuleExample* example = diag::find_example(rule.slug))
    json["example"] = {{"place", diag::place_name(example->place)}, {"bad", example->bad}, {"good", example->good}};
  return json;
}

std::string indented(std::string_view lines) {
  std::string out;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    out += fmt::format("    {}\n", line);
  }
  return out;
}

ExitCode list_rules(const Context& context) {
  if (context.console.format() == Format::kJson) {
    nlohmann::json list = nlohmann::json::array();
    for (const diag::RuleInfo* rule : diag::rules()) list.push_back(to_json(*rule));
    context.console.out(list.dump(2) + "\n");
    return ExitCode::kGood;
  }
  for (const diag::RuleInfo* rule : diag::rules())
    context.console.out(
        fmt::format("{:<36} {:<8} {}\n", rule->slug, diag::severity_name(rule->severity), rule->summary));
  return ExitCode::kGood;
}

ExitCode explain(const Context& context, const ExplainOptions& options) {
  if (options.list || options.rule.empty()) return list_rules(context);
  const diag::RuleInfo* rule = diag::find_rule(options.rule);
  if (rule == nullptr) {
    std::vector<std::string_view> slugs;
    for (const diag::RuleInfo* known : diag::rules()) slugs.push_back(known->slug);
    const auto near = base::nearest(options.rule, slugs);
    return fail(context, diag::make(diag::rule::cli_unknown_rule, fmt::format("no rule is called \"{}\"", options.rule),
                                    near ? fmt::format("did you mean \"{}\"?", *near)
                                         : "`sweepctl explain --list` prints all rules"));
  }
  if (context.console.format() == Format::kJson) {
    context.console.out(to_json(*rule).dump(2) + "\n");
    return ExitCode::kGood;
  }
  context.console.out(fmt::format("{} ({})\n{}\n\n{}\n", rule->slug, diag::severity_name(rule->severity), rule->summary,
                                  wrapped(rule->explanation, 100)));
  if (const diag::RuleExample* example = diag::find_example(rule->slug))
    context.console.out(fmt::format("\nWrong, {}:\n\n{}\nRight:\n\n{}", diag::place_name(example->place),
                                    indented(example->bad), indented(example->good)));
  return ExitCode::kGood;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "What a rule is for, why it exists and what to do");
  command->footer(
      "Examples:\n"
      "  sweepctl explain schema/unknown-field   what it is for, with a wrong and a right example\n"
      "  sweepctl explain --list                 all rules; --format json for programs");
  command->add_option("rule", options->rule, "Rule id, like schema/unknown-field")->type_name("RULE");
  command->add_flag("--list", options->list, "All rules, a line each");
  command->callback(
      [options, &action] { action = [options](Context& context) { return explain(context, *options); }; });
}

}  // namespace sweep::cli
