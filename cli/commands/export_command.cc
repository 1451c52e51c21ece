#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/input/input_files.h"
#include "cli/input/question_flags.h"
#include "cli/input/stated_case.h"
#include "cli/input/stated_names.h"
#include "cli/program/field_names.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/launch_lines.h"
#include "cli/reports/print_answer.h"
#include "cli/source/stored_study.h"
#include "meshwright/v1/estimate.pb.h"
#include "meshwright/v1/service.pb.h"
#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"
#include "server/convert/workload_settings_wire.h"
#include "server/process/exit_code.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace {

struct ExportOptions {
  CaseFlags stated = {};   // its framework, if it is not empty, is the one to export for
  std::string study = {};  // id; empty: the plan of `stated`
  int rank = 1;            // 0: the baseline
};

struct ExportedPlan {
  std::string framework = {};
  v1::RankedPlan ranked = {};
};

// Returns a plan of a study's answer, with the study's question, as a case.
absl::StatusOr<v1::EvaluateCase> CaseOf(const v1::GetStudyResponse& study, int rank) {
  const v1::TuneResult& result = study.result();
  if (result.plans().empty()) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format("study {} is {} and has no plans",
                                                  study.study().id(), study.study().state())),
        "STUDY_WITHOUT_PLANS");
  }
  const int least = result.has_baseline() ? 0 : 1;
  if (rank < least || rank > result.plans_size()) {
    return InvalidFields({{.field = "rank",
                           .description = fmt::format("{}; must be between {} and {}, the plans "
                                                      "of the study",
                                                      rank, least, result.plans_size())}});
  }
  const v1::RankedPlan& ranked = rank == 0 ? result.baseline() : result.plans(rank - 1);
  v1::EvaluateCase asked;
  *asked.mutable_model() = study.question().model();
  *asked.mutable_workload() = study.question().workload();
  *asked.mutable_cluster() = study.question().cluster();
  *asked.mutable_plan() = ranked.plan();
  RETURN_IF_ERROR(SetSettings(ranked, *asked.mutable_workload()));
  return asked;
}

absl::StatusOr<Parsed<v1::EvaluateCase>> ReadAsked(const ExportOptions& options,
                                                   const GlobalFlags& flags) {
  if (options.study.empty()) return ReadCase(options.stated, flags.chips);
  ASSIGN_OR_RETURN(const v1::GetStudyResponse study, GetStudy(options.study, flags));
  Parsed<v1::EvaluateCase> asked;
  ASSIGN_OR_RETURN(asked.message, CaseOf(study, options.rank));
  return asked;
}

// Resolves the case as one of the framework that it is exported for, so that what is not stated
// takes that framework's defaults and is held to its rules.
absl::StatusOr<ResolvedCase> Resolve(Parsed<v1::EvaluateCase> asked, const QuestionFlags& stated,
                                     const Knowledge& knowledge) {
  const std::string_view profile = ProfileOfExport(stated.framework);
  v1::Framework& framework = *asked.message.mutable_workload()->mutable_framework();
  if (!profile.empty() && profile != framework.name()) {
    framework.Clear();
    framework.set_name(std::string(profile));
  }
  if (!stated.framework_version.empty()) framework.set_version(stated.framework_version);
  QuestionResolver resolver(knowledge);
  return CheckCase(asked, resolver);
}

absl::StatusOr<ExportedPlan> Export(const ExportOptions& options, const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(Parsed<v1::EvaluateCase> stated, ReadAsked(options, flags));
  ASSIGN_OR_RETURN(const ResolvedCase asked,
                   Resolve(std::move(stated), options.stated.question, knowledge));
  const std::string& named = options.stated.question.framework;
  const std::string framework = named.empty() ? asked.problem->workload.framework_name : named;
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
  PrintNote("\n" + LaunchNotes(ranked, exported.framework, StdoutColumns()));
}

int RunExport(const ExportOptions& options, const GlobalFlags& flags) {
  const auto exported = Export(options, flags);
  if (!exported.ok()) {
    FieldNames names = {{.field = "rank", .flag = "--rank"}};
    if (options.study.empty()) names = NamesOf(options.stated);
    return Fail(NamedAsStated(exported.status(), names), flags.output);
  }
  if (flags.output == OutputForm::kTable) {
    PrintTable(*exported);
  } else {
    PrintJsonAnswer(exported->ranked);
  }
  return kExitDone;
}

}  // namespace

void AddExportCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App& command = *app.add_subcommand(
      "export", "print the launch flags or the file of a training framework for one plan");
  AddCaseOptions(command, options->stated);
  CLI::Option* const study =
      command.add_option("--study", options->study, "id of the study whose plan is printed");
  command
      .add_option("--rank", options->rank, "the plan's rank in that answer (1); 0: the baseline")
      ->needs(study);
  ExcludeCase(command, *study);
  command.parse_complete_callback([options] {
    if (!options->study.empty()) return;
    if (options->stated.plan.empty() && !HasQuestion(options->stated)) {
      throw CLI::RequiredError("--study, or --plan, or --from,");
    }
    RequireCase(options->stated);
  });
  command.get_option("--framework")
      ->description("one of " + fmt::format("{}", fmt::join(ExportFrameworks(), ", ")) +
                    "; without it, the framework of the case or the study");
  command.callback([options, &program] {
    program.run = [options, &program] { return RunExport(*options, program.flags); };
  });
}

}  // namespace meshwright
