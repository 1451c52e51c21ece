#pragma once

#include "cli/program/program.h"

namespace CLI {
class App;
}

namespace meshwright {

// Each adds one command; its file is <command>_command.cc. `program` must outlive `app`.
void AddInitCommand(CLI::App& app, Program& program);
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
void AddDashboardCommand(CLI::App& app, Program& program);
void AddReportCommand(CLI::App& app, Program& program);
void AddCompletionCommand(CLI::App& app, Program& program);
void AddManCommand(CLI::App& app, Program& program);

}  // namespace meshwright
