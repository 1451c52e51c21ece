#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace meshwright {

enum class OutputForm { kTable, kJson };

// Flags that every command takes.
struct GlobalFlags {
  std::string server = {};       // empty: the engine runs embedded
  std::string store = {};        // SQLite file of the embedded engine
  std::string chips = {};        // folder of the site's own chip files
  std::string cost_models = {};  // folder of vendors' models; empty: none
  OutputForm output = OutputForm::kTable;
  bool is_verbose = false;  // reports say all they know
};

// The command that the command line asked for. A command's parser sets `run`, which returns the
// exit code; main calls it after parsing, so that no command starts while a later flag is still
// unread.
struct Program {
  GlobalFlags flags = {};
  std::function<int()> run = {};
};

// Each adds one command and lives in <command>_command.cc. `program` must outlive `app`.
void AddTuneCommand(CLI::App& app, Program& program);
void AddEvaluateCommand(CLI::App& app, Program& program);
void AddCompareCommand(CLI::App& app, Program& program);
void AddExplainCommand(CLI::App& app, Program& program);
void AddExportCommand(CLI::App& app, Program& program);
void AddRefitCommand(CLI::App& app, Program& program);
void AddTraceCommand(CLI::App& app, Program& program);
void AddHistoryCommand(CLI::App& app, Program& program);
void AddStudyCommand(CLI::App& app, Program& program);
void AddJobCommand(CLI::App& app, Program& program);
void AddCalibrateCommand(CLI::App& app, Program& program);
void AddModelCommand(CLI::App& app, Program& program);
void AddChipCommand(CLI::App& app, Program& program);
void AddServerCommand(CLI::App& app, Program& program);

}  // namespace meshwright
