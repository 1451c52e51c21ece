#include "cli/help/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace meshwright {
namespace {

// Returns the text in single quotes of a shell.
std::string ShellQuoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Returns the first clause of a help, for the list that a shell shows.
std::string Brief(const std::string& help) {
  return help.substr(0, std::min(help.find("; "), help.find(": ")));
}

std::vector<std::string> NamesOfFlags(const std::vector<FlagEntry>& flags) {
  std::vector<std::string> names;
  for (const FlagEntry& flag : flags) {
    names.push_back(flag.name);
    if (!flag.short_name.empty()) names.push_back(flag.short_name);
  }
  return names;
}

template <typename Visitor>
void ForEachCommand(const CommandEntry& entry, const Visitor& visit) {
  visit(entry);
  for (const CommandEntry& command : entry.commands) ForEachCommand(command, visit);
}

// Returns the arm of a case that holds the words of one command.
std::string BashArm(const CommandEntry& entry, const CommandEntry& root) {
  std::vector<std::string> commands;
  for (const CommandEntry& command : entry.commands) commands.push_back(command.name);
  std::vector<std::string> flags = NamesOfFlags(entry.flags);
  if (&entry != &root) {
    for (const std::string& name : NamesOfFlags(root.flags)) flags.push_back(name);
  }
  return fmt::format("    {}) commands={}; flags={} ;;\n", ShellQuoted(entry.path),
                     ShellQuoted(fmt::format("{}", fmt::join(commands, " "))),
                     ShellQuoted(fmt::format("{}", fmt::join(flags, " "))));
}

// Returns the arms that complete the values of flags; those that take none are left out.
std::string BashValues(const CommandEntry& root) {
  std::set<std::string> arms;
  ForEachCommand(root, [&arms](const CommandEntry& entry) {
    for (const FlagEntry& flag : entry.flags) {
      if (flag.type.empty()) continue;
      arms.insert(flag.choices.empty()
                      ? fmt::format("    {}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n",
                                    flag.name)
                      : fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$word\")); "
                                    "return ;;\n",
                                    flag.name, fmt::join(flag.choices, " ")));
    }
  });
  return fmt::format("{}", fmt::join(arms, ""));
}

std::string BashFunction(const CommandEntry& root) {
  std::string arms;
  std::vector<std::string> paths;
  ForEachCommand(root, [&](const CommandEntry& entry) {
    arms += BashArm(entry, root);
    paths.push_back(ShellQuoted(entry.path));
  });
  return fmt::format(R"(_meshwright() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command=meshwright commands='' flags='' i
  case "$previous" in
{}  esac
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${{COMP_WORDS[i]}}" in
      {}) command="$command ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$command" in
{}  esac
  if [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$word"))
  elif [[ -n "$commands" ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
)",
                     BashValues(root), fmt::join(paths, " | "), arms);
}

// Returns the lines of fish for one command. `condition` holds where its words may follow.
std::string FishCommand(const CommandEntry& entry, const std::string& condition) {
  std::string text;
  for (const CommandEntry& command : entry.commands) {
    text += fmt::format("complete -c meshwright -f -n {} -a {} -d {}\n", ShellQuoted(condition),
                        command.name, ShellQuoted(Brief(command.help)));
  }
  for (const FlagEntry& flag : entry.flags) {
    text += fmt::format("complete -c meshwright -n {} -l {} -d {}", ShellQuoted(condition),
                        flag.name.substr(2), ShellQuoted(Brief(flag.help)));
    if (!flag.short_name.empty()) text += " -s " + flag.short_name.substr(1);
    if (!flag.type.empty()) text += " -r";
    if (!flag.choices.empty()) {
      text +=
          fmt::format(" -f -a {}", ShellQuoted(fmt::format("{}", fmt::join(flag.choices, " "))));
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string BashCompletion(const CommandEntry& root) {
  return "# Made by `meshwright completion bash`.\n" + BashFunction(root) +
         "complete -o filenames -o bashdefault -F _meshwright meshwright\n";
}

std::string ZshCompletion(const CommandEntry& root) {
  return "#compdef meshwright\n# Made by `meshwright completion zsh`.\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         BashFunction(root) + "complete -o filenames -F _meshwright meshwright\n";
}

std::string FishCompletion(const CommandEntry& root) {
  std::string text = "# Made by `meshwright completion fish`.\n";
  std::vector<std::string> names;
  for (const CommandEntry& command : root.commands) names.push_back(command.name);
  CommandEntry first = root;
  first.flags.clear();
  text +=
      FishCommand(first, fmt::format("not __fish_seen_subcommand_from {}", fmt::join(names, " ")));
  CommandEntry everywhere = root;
  everywhere.commands.clear();
  text += FishCommand(everywhere, "true");
  for (const CommandEntry& command : root.commands) {
    std::vector<std::string> below;
    for (const CommandEntry& entry : command.commands) below.push_back(entry.name);
    const std::string seen = "__fish_seen_subcommand_from " + command.name;
    text += FishCommand(command, below.empty() ? seen
                                               : fmt::format("{}; and not "
                                                             "__fish_seen_subcommand_from {}",
                                                             seen, fmt::join(below, " ")));
    for (const CommandEntry& entry : command.commands) {
      text += FishCommand(entry,
                          fmt::format("{}; and __fish_seen_subcommand_from {}", seen, entry.name));
    }
  }
  return text;
}

}  // namespace meshwright
