#include "server/tuner/import/text/launch_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <utility>

#include "search_space/base/status.h"
#include "server/tuner/import/text/shell_variables.h"

namespace meshwright {
namespace {

constexpr std::array<std::string_view, 7> kLaunchers = {"torchrun",
                                                        "deepspeed",
                                                        "accelerate",
                                                        "torch.distributed.run",
                                                        "torch.distributed.launch",
                                                        "paddle.distributed.launch",
                                                        "msrun"};

bool IsLauncher(std::string_view word) {
  return std::ranges::find(kLaunchers, word) != kLaunchers.end();
}

bool IsConfig(std::string_view word) {
  constexpr std::array<std::string_view, 4> kEndings = {".yaml", ".yml", ".toml", ".json"};
  return std::ranges::any_of(kEndings, [&](std::string_view e) { return word.ends_with(e); });
}

// Returns true for a word that begins a flag. "-1" is a value.
bool IsFlag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != '.';
}

bool IsOverride(std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  return equals != std::string_view::npos && !name.empty() && std::ranges::all_of(name, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' ||
                  c == '+' || c == '~' || c == '@';
         });
}

// Returns true for "trainer.num_nodes=8", which is no value of a flag before it.
bool IsPath(std::string_view word) {
  return IsOverride(word) && word.substr(0, word.find('=')).find('.') != std::string_view::npos;
}

// Returns the index of the word that is the training program: "x.py", or the module behind "-m"
// that is no launcher. The size of the list if there is none.
std::size_t ProgramIndex(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].ends_with(".py") && !IsLauncher(words[i])) return i;
    const bool is_module = i > 0 && (words[i - 1] == "-m" || words[i - 1] == "--module");
    if (is_module && !IsLauncher(words[i])) return i;
  }
  // NeMo's command is a program of its own.
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "nemo" && words[i + 1] == "llm") return i + 1;
  }
  return words.size();
}

std::string KeyOf(std::string_view flag) {
  while (flag.starts_with('-')) flag.remove_prefix(1);
  std::string key(flag);
  std::ranges::replace(key, '_', '-');
  return key;
}

Setting SettingOf(std::string key, const std::string& value, std::string place) {
  std::string unresolved = UnresolvedIn(value);
  return {.key = std::move(key),
          .value = Shown(value),
          .place = std::move(place),
          .unresolved = std::move(unresolved)};
}

// Reads "--flag value value", "--flag=value", "key=value" and files.
void ReadWords(std::span<const std::string> words, const std::string& place,
               std::vector<Setting>& flags, LaunchCommand& command) {
  Setting* open = nullptr;
  for (const std::string& word : words) {
    if (IsFlag(word)) {
      const std::size_t equals = word.find('=');
      const std::string value = equals == word.npos ? "" : word.substr(equals + 1);
      flags.push_back(SettingOf(KeyOf(word.substr(0, equals)), value, place));
      open = equals == word.npos ? &flags.back() : nullptr;
    } else if (open != nullptr && !IsPath(word) && !(IsOverride(word) && !open->value.empty())) {
      const std::string value = open->value.empty() ? word : open->value + " " + word;
      const std::string unresolved = open->unresolved;
      *open = SettingOf(open->key, value, place);
      if (!unresolved.empty()) open->unresolved = unresolved;
    } else if (IsOverride(word)) {
      const std::size_t equals = word.find('=');
      command.overrides.push_back(
          SettingOf(word.substr(0, equals), word.substr(equals + 1), place));
    } else if (IsConfig(word)) {
      command.files.push_back(word);
    } else {
      flags.push_back({.key = Shown(word), .place = place, .unresolved = UnresolvedIn(word)});
    }
  }
}

LaunchCommand Split(const ShellCommand& shell, std::string_view file) {
  LaunchCommand command;
  const std::string place = fmt::format("{} line {}", file, shell.line);
  const std::size_t program = ProgramIndex(shell.words);
  const bool has_program = program < shell.words.size();
  const std::span words(shell.words);
  LaunchCommand before;
  // "paddle.distributed.launch --devices 0,1 run.py file.json": values never take the program.
  ReadWords(words.first(has_program ? program : 0), place, command.launcher, before);
  for (Setting& setting : before.overrides) command.launcher.push_back(std::move(setting));
  if (has_program) command.program = shell.words[program];
  ReadWords(words.subspan(has_program ? program + 1 : 0), place, command.arguments, command);
  return command;
}

std::size_t FlagCount(const LaunchCommand& command) {
  return command.launcher.size() + command.arguments.size() + command.overrides.size() +
         command.files.size();
}

bool StartsTraining(const ShellCommand& command) {
  return ProgramIndex(command.words) < command.words.size() ||
         std::ranges::any_of(command.words, IsLauncher) ||
         command.words.front().starts_with("--") || IsOverride(command.words.front());
}

}  // namespace

absl::StatusOr<LaunchCommand> FindLaunchCommand(const ShellScript& script, std::string_view file) {
  std::vector<LaunchCommand> found;
  LaunchCommand bare;  // an argument list, maybe with one argument a line
  for (const ShellCommand& command : script.commands) {
    if (!StartsTraining(command)) continue;
    LaunchCommand split = Split(command, file);
    if (split.program.empty() && split.launcher.empty()) {
      std::ranges::move(split.arguments, std::back_inserter(bare.arguments));
      std::ranges::move(split.overrides, std::back_inserter(bare.overrides));
    } else if (FlagCount(split) > 0) {
      found.push_back(std::move(split));
    }
  }
  if (found.empty() && FlagCount(bare) > 0) return bare;
  if (found.empty()) {
    return InvalidFields({{.field = std::string(file),
                           .description = "has no command that starts a training program, and no "
                                          "arguments of one"}});
  }
  // Preparation (of data, of checkpoints) has fewer arguments than the training itself.
  const auto most = std::ranges::max_element(found, {}, FlagCount);
  const auto rivals = std::ranges::count_if(found, [&](const LaunchCommand& other) {
    return other.program == most->program && other.arguments != most->arguments;
  });
  if (rivals == 0) return *most;
  return InvalidFields(
      {{.field = std::string(file),
        .description = fmt::format("runs {} several times with different arguments; leave one",
                                   most->program)}});
}

}  // namespace meshwright
