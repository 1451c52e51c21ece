#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/input/input_files.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/print_answer.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"
#include "server/process/exit_code.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace {

struct ExportOptions {
  std::string plan = {};
  std::string framework = "megatron-core";
};

absl::StatusOr<v1::RankedPlan> Export(const ExportOptions& options, const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const ResolvedCase asked, ReadCaseFile(options.plan, knowledge));
  const ParallelPlan& plan = asked.plan.plan;
  ASSIGN_OR_RETURN(const std::string flag_text,
                   ExportPlan(options.framework, *asked.problem, plan));
  v1::RankedPlan exported;
  *exported.mutable_plan() = ToWire(plan);
  exported.set_plan_digest(MakePlanKey(plan).digest);
  (*exported.mutable_exports())[options.framework] = flag_text;
  return exported;
}

int RunExport(const ExportOptions& options, const GlobalFlags& flags) {
  const auto exported = Export(options, flags);
  if (!exported.ok()) return Fail(exported.status(), flags.output);
  PrintData(flags.output == OutputForm::kTable
                ? ForTerminal(*exported).exports().at(options.framework)
                : PrintJson(*exported, {.multiline = true}) + "\n");
  return kExitDone;
}

}  // namespace

void AddExportCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App& command =
      *app.add_subcommand("export", "print a training framework's launch flags for one plan");
  command.add_option("--plan", options->plan, "a case as for `evaluate`; - is stdin")->required();
  command.add_option("--framework", options->framework, "framework to write the flags for")
      ->capture_default_str();
  command.callback([options, &program] {
    program.run = [options, &program] { return RunExport(*options, program.flags); };
  });
}

}  // namespace meshwright
