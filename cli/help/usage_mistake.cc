#include "cli/help/usage_mistake.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/help/command_tree.h"
#include "cli/program/suggestion.h"
#include "proto/json/closest_word.h"

namespace meshwright {
namespace {

// The commands that the line names, from the root on.
std::vector<const CLI::App*> ChainOf(const CLI::App& root) {
  std::vector<const CLI::App*> chain = {&root};
  while (!chain.back()->get_subcommands().empty()) {
    chain.push_back(chain.back()->get_subcommands().front());
  }
  return chain;
}

std::string ChainPath(const std::vector<const CLI::App*>& chain) {
  std::string path;
  for (const CLI::App* const app : chain) path += (path.empty() ? "" : " ") + app->get_name();
  return path;
}

std::string DidYouMean(std::string_view given, const std::vector<std::string>& known) {
  const std::vector<std::string_view> words(known.begin(), known.end());
  const std::optional<std::string_view> closest = ClosestWord(given, words);
  return closest.has_value() ? fmt::format("; did you mean {}?", *closest) : "";
}

std::vector<std::string> FlagNames(const std::vector<const CLI::App*>& chain) {
  std::vector<std::string> names;
  for (const CLI::App* const app : chain) {
    for (const CLI::Option* const option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

bool IsFlag(std::string_view word) {
  const bool is_number = word.size() > 1 && word.find_first_not_of("-.0123456789") == word.npos;
  return word.size() > 1 && word.starts_with('-') && !is_number;
}

// Returns a sentence about a word that is no command; `commands` are those that there are.
std::string UnknownCommand(const std::string& word, const std::string& path,
                           const std::vector<std::string>& commands) {
  if (word == "help" || word == "version") {
    return fmt::format("error: {0}: {1} has no such command; did you mean {1} --{0}?\n", word,
                       path);
  }
  return fmt::format("error: {}: {} has no such command{}\n", word, path,
                     DidYouMean(word, commands));
}

// Returns a sentence about the words that belong to nothing; empty if there are none. The flags
// behind an unknown command are not looked at.
std::string UnknownWords(const std::vector<const CLI::App*>& chain,
                         const std::vector<std::string>& words) {
  if (words.empty()) return "";
  const std::string path = ChainPath(chain);
  const std::vector<std::string> commands = CommandNames(*chain.back());
  if (!commands.empty() && !IsFlag(words.front())) {
    return UnknownCommand(words.front(), path, commands);
  }
  std::string text;
  for (const std::string& word : words) {
    if (!IsFlag(word)) continue;  // perhaps the value of an unknown flag
    const std::string flag = word.substr(0, word.find('='));
    text += fmt::format("error: {}: {} has no such flag{}\n", flag, path,
                        DidYouMean(flag, FlagNames(chain)));
  }
  if (!text.empty()) return text;
  return fmt::format("error: {}: {} takes no such argument\n", words.front(), path);
}

// Returns the kind of value that a flag takes.
std::string_view WantedBy(const std::string& flag, const std::vector<const CLI::App*>& chain) {
  std::string type;
  for (const CLI::App* const app : chain) {
    const CLI::Option* const option = app->get_option_no_throw(flag);
    if (option != nullptr) type = EntryOf(*option).type;
  }
  if (type == "BOOLEAN") return "true or false";
  return type == "FLOAT" ? "a number" : "a whole number";
}

// Returns the parser's message on the value of a flag ("--workers: Value 0 not in range 1 to 9") as
// a sentence with the flag, the value and the limit.
std::string ValueSentence(const std::string& message) {
  const std::size_t colon = message.find(": ");
  if (colon == std::string::npos) return message;
  const std::string flag = message.substr(0, colon);
  const std::string mistake = message.substr(colon + 2);
  if (mistake.find("; must be ") != std::string::npos) {  // a check of our own
    return fmt::format("{} = {}{}", flag, mistake, SuggestionFor(mistake));
  }
  if (mistake.ends_with(" missing")) return flag + " needs a value";
  constexpr std::string_view kValue = "Value ";
  constexpr std::string_view kRange = " not in range ";
  const std::size_t range = mistake.find(kRange);
  if (!mistake.starts_with(kValue) || range == std::string::npos) return message;
  return fmt::format("{} = {}; must be in the range {}", flag,
                     mistake.substr(kValue.size(), range - kValue.size()),
                     mistake.substr(range + kRange.size()));
}

std::string Sentence(const std::vector<const CLI::App*>& chain, const CLI::ParseError& error) {
  const std::string message = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
      message.find("subcommand") != std::string::npos) {
    return fmt::format("{} needs a command: {}", ChainPath(chain),
                       fmt::join(CommandNames(*chain.back()), ", "));
  }
  constexpr std::string_view kNotConverted = "Could not convert: ";
  if (!message.starts_with(kNotConverted)) return ValueSentence(message);
  const std::string rest = message.substr(kNotConverted.size());
  return fmt::format("{}; must be {}", rest, WantedBy(rest.substr(0, rest.find(' ')), chain));
}

}  // namespace

std::string UsageMistake(const CLI::App& root, const CLI::ParseError& error) {
  const std::vector<const CLI::App*> chain = ChainOf(root);
  std::string text = UnknownWords(chain, root.remaining(true));
  if (text.empty()) text = fmt::format("error: {}\n", Sentence(chain, error));
  return text + fmt::format("{} --help says more", ChainPath(chain));
}

}  // namespace meshwright
