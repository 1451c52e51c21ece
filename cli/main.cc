// meshwright: finds ranked plans for a model and a cluster, on this machine or through a server.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/program/flag_texts.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "search_space/base/status.h"
#include "server/engine/store_path.h"
#include "server/process/exit_code.h"

namespace meshwright {
namespace {

void AddGlobalFlags(CLI::App& app, GlobalFlags& flags) {
  flags.store = DefaultStorePath();
  app.set_version_flag("--version", "meshwright " MESHWRIGHT_VERSION);
  app.add_option("--server", flags.server,
                 "HOST:PORT or unix:/path of a meshwrightd (if absent, this program answers)");
  app.add_option("--db", flags.store, "SQLite file with the history")->capture_default_str();
  app.add_option("--chips", flags.chips, "folder with the site's own chip files");
  app.add_option("--cost-models", flags.cost_models,
                 "folder with a JSON manifest for each vendor's cost model");
  app.add_flag("--verbose", flags.is_verbose,
               "reports also show the applied defaults, what was pruned and where the time goes");
  const std::map<std::string, OutputForm> forms = {{"table", OutputForm::kTable},
                                                   {"json", OutputForm::kJson}};
  app.add_option("--output", flags.output,
                 "form of the output: table for people, json for programs")
      ->transform(CLI::CheckedTransformer(forms).description(""))
      ->type_name("{table,json}");
}

int RunProgram(int argc, char** argv) {
  Program program;
  CLI::App app(
      "Meshwright finds how to split a model across chips so that a training step is fast and "
      "fits.",
      "meshwright");
  app.fallthrough();  // global flags may follow the command
  app.require_subcommand(1);
  AddGlobalFlags(app, program.flags);
  AddTuneCommand(app, program);
  AddEvaluateCommand(app, program);
  AddCompareCommand(app, program);
  AddExplainCommand(app, program);
  AddExportCommand(app, program);
  AddRefitCommand(app, program);
  AddTraceCommand(app, program);
  AddHistoryCommand(app, program);
  AddStudyCommand(app, program);
  AddJobCommand(app, program);
  AddCalibrateCommand(app, program);
  AddModelCommand(app, program);
  AddChipCommand(app, program);
  AddServerCommand(app, program);
  AddDashboardCommand(app, program);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitDone : kExitUsage;
  }
  const std::vector<FieldViolation> mistakes = FlagTextMistakes(app);
  if (!mistakes.empty()) return Fail(InvalidFields(mistakes), program.flags.output);
  return program.run();
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  try {
    return meshwright::RunProgram(argc, argv);
  } catch (const std::exception& e) {
    meshwright::PrintNote(fmt::format("error: {}", e.what()));
    return meshwright::kExitInternal;
  }
}
