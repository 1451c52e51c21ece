// meshwright: finds ranked plans for a model and a cluster, on this machine or through a server.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <vector>

#include "cli/commands/command_line.h"
#include "cli/help/usage_mistake.h"
#include "cli/program/flag_texts.h"
#include "cli/program/log.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "search_space/base/status.h"
#include "server/process/exit_code.h"
#include "server/version/version.h"

namespace meshwright {
namespace {

int RunProgram(int argc, char** argv) {
  Program program;
  CLI::App app(
      "Meshwright finds how to split a model across chips so that a training step is fast and "
      "fits.",
      "meshwright");
  AddCommandLine(app, VersionText("meshwright"), program);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // help or version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    PrintNote(UsageMistake(app, error));
    return kExitUsage;
  }
  const std::vector<FieldViolation> mistakes = FlagTextMistakes(app);
  if (!mistakes.empty()) return Fail(InvalidFields(mistakes), program.flags.output);
  if (program.flags.output == OutputForm::kCsv && !program.writes_csv) {
    PrintNote(
        "error: --output csv: only tune, study list, study plans, history list and history "
        "measurements write lists");
    return kExitUsage;
  }
  return program.run();
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  try {
    meshwright::LogToStderr();
    return meshwright::RunProgram(argc, argv);
  } catch (const std::exception& e) {
    meshwright::PrintNote(fmt::format("error: {}", e.what()));
    return meshwright::kExitInternal;
  }
}
