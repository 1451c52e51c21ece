#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace meshwright {

// A flag or an argument of a command, as help, completion and the manual show it.
struct FlagEntry {
  std::string name = {};                  // "--model", or "id" of an argument
  std::string short_name = {};            // "-h"; empty: none
  std::string type = {};                  // "TEXT", "INT", "FLOAT"; empty: it takes no value
  std::vector<std::string> choices = {};  // all of its values; empty: not a closed set
  std::string group = {};
  std::string help = {};  // with its default and what it needs
  bool is_required = false;
  bool is_list = false;
};

struct CommandEntry {
  std::string path = {};  // "meshwright study show"
  std::string name = {};  // "show"
  std::string help = {};
  std::string topic = {};
  std::vector<FlagEntry> flags = {};
  std::vector<FlagEntry> arguments = {};
  std::vector<CommandEntry> commands = {};
};

FlagEntry EntryOf(const CLI::Option& option);

// Returns a command with all below it. The flags of the root are those of every command.
CommandEntry TreeOf(const CLI::App& root);

}  // namespace meshwright
