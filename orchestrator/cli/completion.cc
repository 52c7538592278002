// Shell completion, written from the same definition as the parser: sub-commands, options, and the words that an option
// accepts (its type name, "a|b|c").
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/cli/command.h"
#include "orchestrator/diag/rules.h"

namespace sweep::cli {

namespace {

struct Choice {
  std::vector<std::string> names;  // "--kind", "-k"; none for a positional argument
  std::vector<std::string> words;  // what it accepts, if that is a closed set
  std::string description;
  bool takes_value = false;
};

struct Level {
  std::string path;                                           // "sweepctl plan full-sweep"
  std::vector<std::pair<std::string, std::string>> commands;  // with their descriptions
  std::vector<Choice> choices;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  if (text.find('|') == std::string::npos) return words;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('|', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// The first line, without what a shell or a man page would take for markup.
std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text.substr(0, text.find('\n')))
    if (c != '\'' && c != '"' && c != '\\' && c != '`' && c != '$') line += c;
  return line;
}

Choice choice_of(const CLI::Option& option) {
  Choice choice{.words = split(option.get_type_name()),
                .description = one_line(option.get_description()),
                .takes_value = option.get_items_expected_max() > 0};
  for (const std::string& name : option.get_lnames()) choice.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) choice.names.push_back("-" + name);
  return choice;
}

void collect(const CLI::App& app, const std::string& path, const std::vector<Choice>& common,
             std::vector<Level>& levels) {
  Level level{.path = path};
  for (const CLI::App* sub : app.get_subcommands({}))
    level.commands.emplace_back(sub->get_name(), one_line(sub->get_description()));
  for (const CLI::Option* option : app.get_options()) level.choices.push_back(choice_of(*option));
  if (path == "sweepctl explain") {
    Choice rules;
    for (const diag::RuleInfo* rule : diag::rules()) rules.words.emplace_back(rule->slug);
    level.choices.push_back(std::move(rules));
  }
  for (const Choice& choice : common)
    if (choice.names.empty() || choice.names.front() != "--help") level.choices.push_back(choice);
  const std::vector<Choice> inherited = common.empty() ? level.choices : common;  // options of the top hold everywhere
  levels.push_back(std::move(level));
  for (const CLI::App* sub : app.get_subcommands({})) collect(*sub, path + " " + sub->get_name(), inherited, levels);
}

std::string words_of(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::string words_at(const Level& level) {
  std::vector<std::string> words;
  for (const auto& [name, description] : level.commands) words.push_back(name);
  for (const Choice& choice : level.choices) {
    const std::vector<std::string>& more = choice.names.empty() ? choice.words : choice.names;
    words.insert(words.end(), more.begin(), more.end());
  }
  return words_of(words);
}

// "sweepctl plan"|"sweepctl plan full-sweep": every path below the top, as a pattern of `case`.
std::string paths(const std::vector<Level>& levels, std::string_view separator) {
  std::vector<std::string> quoted;
  for (size_t i = 1; i < levels.size(); ++i) quoted.push_back(fmt::format("'{}'", levels[i].path));
  return fmt::format("{}", fmt::join(quoted, separator));
}

// One arm of `case` for each option with a value: `offer` of its words, or of files.
template <class Offer>
std::string value_arms(const std::vector<Level>& levels, const Offer& offer) {
  std::string out;
  for (const Level& level : levels)
    for (const Choice& choice : level.choices) {
      if (!choice.takes_value || choice.names.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : choice.names) patterns.push_back(fmt::format("'{} {}'", level.path, name));
      out += fmt::format("    {}) {} ;;\n", fmt::join(patterns, "|"), offer(choice.words));
    }
  return out;
}

std::string bash_script(const std::vector<Level>& levels) {
  std::string out =
      "# bash completion of sweepctl: eval \"$(sweepctl completion bash)\"\n"
      "_sweepctl() {\n"
      "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" where=sweepctl words= i\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"$where ${COMP_WORDS[i]}\" in\n";
  out += fmt::format("      {}) where=\"$where ${{COMP_WORDS[i]}}\" ;;\n", paths(levels, "|"));
  out += "    esac\n  done\n  case \"$where ${COMP_WORDS[COMP_CWORD-1]}\" in\n";
  out += value_arms(levels, [](const std::vector<std::string>& words) {
    return words.empty() ? std::string("return")
                         : fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return", words_of(words));
  });
  out += "  esac\n  case \"$where\" in\n";
  for (const Level& level : levels) out += fmt::format("    '{}') words='{}' ;;\n", level.path, words_at(level));
  out +=
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "}\n"
      "complete -o default -F _sweepctl sweepctl\n";
  return out;
}

std::string zsh_script(const std::vector<Level>& levels) {
  std::string out =
      "#compdef sweepctl\n"
      "# zsh completion of sweepctl: eval \"$(sweepctl completion zsh)\", after compinit\n"
      "_sweepctl() {\n"
      "  local where=sweepctl i\n"
      "  for ((i = 2; i < CURRENT; ++i)); do\n"
      "    case \"$where ${words[i]}\" in\n";
  out += fmt::format("      {}) where=\"$where ${{words[i]}}\" ;;\n", paths(levels, "|"));
  out += "    esac\n  done\n  case \"$where ${words[CURRENT-1]}\" in\n";
  out += value_arms(levels, [](const std::vector<std::string>& words) {
    return words.empty() ? std::string("_files; return") : fmt::format("compadd -- {}; return", words_of(words));
  });
  out += "  esac\n  case \"$where\" in\n";
  for (const Level& level : levels) out += fmt::format("    '{}') compadd -- {} ;;\n", level.path, words_at(level));
  out += "  esac\n  _files\n}\ncompdef _sweepctl sweepctl\n";
  return out;
}

std::string fish_script(const std::vector<Level>& levels) {
  std::string out =
      "# fish completion of sweepctl: sweepctl completion fish | source\n"
      "function __sweepctl_where\n"
      "  set -l where sweepctl\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$where $word\"\n";
  out += fmt::format("      case {}\n        set where \"$where $word\"\n", paths(levels, " "));
  out += "    end\n  end\n  echo $where\nend\n";
  for (const Level& level : levels) {
    const std::string here = fmt::format("complete -c sweepctl -n 'test (__sweepctl_where) = \"{}\"'", level.path);
    for (const auto& [name, description] : level.commands)
      out += fmt::format("{} -f -a {} -d '{}'\n", here, name, description);
    for (const Choice& choice : level.choices) {
      if (choice.names.empty()) {
        if (!choice.words.empty()) out += fmt::format("{} -f -a '{}'\n", here, words_of(choice.words));
        continue;
      }
      std::string line = here;
      for (const std::string& name : choice.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (choice.takes_value)
        line += choice.words.empty() ? std::string(" -r") : fmt::format(" -x -a '{}'", words_of(choice.words));
      out += fmt::format("{} -d '{}'\n", line, choice.description);
    }
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "A script that completes commands, options and their words");
  command->footer(
      "Examples:\n"
      "  eval \"$(sweepctl completion bash)\"      in ~/.bashrc\n"
      "  eval \"$(sweepctl completion zsh)\"       in ~/.zshrc, after compinit\n"
      "  sweepctl completion fish | source       in ~/.config/fish/config.fish");
  command->add_option("shell", *shell, "The shell")
      ->required()
      ->type_name("bash|zsh|fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  command->callback([shell, &app, &action] {
    action = [shell, &app](Context& context) {
      std::vector<Level> levels;
      collect(app, "sweepctl", {}, levels);
      context.console.out(*shell == "bash"  ? bash_script(levels)
                          : *shell == "zsh" ? zsh_script(levels)
                                            : fish_script(levels));
      return ExitCode::kGood;
    };
  });
}

}  // namespace sweep::cli
