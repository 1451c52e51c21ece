#pragma once

#include <functional>
#include <string>

namespace meshwright {

enum class OutputForm { kTable, kJson, kCsv };

// Says when output for people has colours. kAuto: on a terminal, unless NO_COLOR is set or TERM is
// dumb (https://no-color.org).
enum class ColorUse { kAuto, kAlways, kNever };

// Files with what a server must be shown, and with what shows that it is the right one.
struct ServerFiles {
  std::string token = {};        // empty: no token
  std::string authority = {};    // PEM; empty: the connection is not encrypted
  std::string certificate = {};  // PEM; empty: none
  std::string private_key = {};
};

// Flags that every command takes.
struct GlobalFlags {
  std::string server = {};  // empty: the engine runs embedded
  ServerFiles server_files = {};
  std::string store = {};        // SQLite file of the embedded engine
  std::string chips = {};        // folder of the site's own chip files
  std::string cost_models = {};  // folder of vendors' models; empty: none
  OutputForm output = OutputForm::kTable;
  ColorUse color = ColorUse::kAuto;
  bool is_verbose = false;  // reports say all they know
};

// The command that the command line asked for. A command's parser sets `run`, which returns the
// exit code; main calls it after parsing, so that no command starts while a later flag is still
// unread.
struct Program {
  GlobalFlags flags = {};
  std::function<int()> run = {};
  bool writes_csv = false;  // only lists have a CSV form
};

}  // namespace meshwright
