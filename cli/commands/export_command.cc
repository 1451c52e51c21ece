#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>

#include "cli/input/input_files.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/launch_lines.h"
#include "cli/reports/print_answer.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"
#include "server/process/exit_code.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace {

struct ExportOptions {
  std::string plan = {};
  std::string framework = {};  // empty: that of the case
};

struct ExportedPlan {
  std::string framework = {};
  v1::RankedPlan ranked = {};
};

absl::StatusOr<ExportedPlan> Export(const ExportOptions& options, const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const ResolvedCase asked, ReadCaseFile(options.plan, knowledge));
  const std::string framework =
      options.framework.empty() ? asked.problem->workload.framework_name : options.framework;
  const ParallelPlan& plan = asked.plan.plan;
  ASSIGN_OR_RETURN(const LaunchConfig config, ExportPlan(framework, *asked.problem, plan));
  v1::RankedPlan ranked = ToWire(RankedPlan{.plan = plan, .exports = {{framework, config}}});
  ranked.clear_estimate();
  return ExportedPlan{.framework = framework, .ranked = std::move(ranked)};
}

// Prints the text as it can be saved to stdout, and everything else to stderr.
void PrintTable(const ExportedPlan& exported) {
  const v1::RankedPlan ranked = ForTerminal(exported.ranked);
  const v1::Launch& launch = ranked.launches().at(exported.framework);
  PrintData(ranked.exports().at(exported.framework));
  PrintNote(fmt::format("\n{}{}", launch.command(), launch.file_name().empty() ? " <flags>" : ""));
  for (const v1::ConfigFile& file : launch.other_files()) {
    PrintNote(fmt::format("\n{}:\n{}", file.name(), file.text()));
  }
  PrintNote("\n" + LaunchNotes(ranked, exported.framework));
}

int RunExport(const ExportOptions& options, const GlobalFlags& flags) {
  const auto exported = Export(options, flags);
  if (!exported.ok()) return Fail(exported.status(), flags.output);
  if (flags.output == OutputForm::kTable) {
    PrintTable(*exported);
  } else {
    PrintData(PrintJson(exported->ranked, {.multiline = true}) + "\n");
  }
  return kExitDone;
}

}  // namespace

void AddExportCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App& command = *app.add_subcommand(
      "export", "print the launch flags or the file of a training framework for one plan");
  command.add_option("--plan", options->plan, "a case as for `evaluate`; - is stdin")->required();
  command.add_option("--framework", options->framework,
                     "one of " + fmt::format("{}", fmt::join(ExportFrameworks(), ", ")) +
                         "; without it, the framework of the case");
  command.callback([options, &program] {
    program.run = [options, &program] { return RunExport(*options, program.flags); };
  });
}

}  // namespace meshwright
