#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/input/input_files.h"
#include "cli/program/field_names.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/words.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "search_space/spec/workload.h"
#include "server/convert/convert.h"
#include "server/process/exit_code.h"
#include "server/tuner/answers/refit.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

struct RefitOptions {
  std::string run = {};
  std::vector<std::string> facts = {};
};

struct Refitted {
  HistoryRow run = {};
  Refit refit = {};
};

// Rewrites the mistakes of a history with one row so that they speak of the run.
absl::Status NamingTheRun(const absl::Status& status) {
  std::vector<FieldViolation> violations = FieldViolations(status);
  for (FieldViolation& violation : violations) {
    for (const std::string_view prefix : {"history[0]", "history"}) {
      if (!violation.field.starts_with(prefix)) continue;
      violation.field.replace(0, prefix.size(), "run");
      break;
    }
  }
  return violations.empty() ? status : InvalidFields(violations);
}

absl::StatusOr<Refitted> RefitRun(const RefitOptions& options, const GlobalFlags& flags) {
  if (!flags.server.empty()) {
    return InvalidFields(
        {{.field = "server",
          .description = flags.server + "; must be absent: refit only runs with this "
                                        "program's own chips and profiles"}});
  }
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  const absl::StatusOr<History> history = ReadHistory(options.run, knowledge);
  if (!history.ok()) return NamingTheRun(history.status());
  if (history->rows.size() != 1) {
    return InvalidFields({{.field = "run",
                           .description = fmt::format("{}; has {} runs, must have exactly one",
                                                      options.run, history->rows.size())}});
  }
  const HistoryRow& run = history->rows.front();
  ASSIGN_OR_RETURN(const Refit refit, RefitFramework(run, options.facts, knowledge));
  return Refitted{.run = run, .refit = refit};
}

// Returns the framework section of a workload that has these constants.
v1::Framework FrameworkOf(const Refitted& refitted) {
  WorkloadRequest workload = refitted.run.question.workload;
  workload.framework_facts = refitted.refit.facts;
  return ToWire(workload).framework();
}

void PrintChange(const Refitted& refitted) {
  const Refit& refit = refitted.refit;
  if (refitted.run.step_time) {
    PrintNote(fmt::format("step time: measured {}, estimated {}, refitted {}",
                          SecondsText(refitted.run.step_time->count()),
                          SecondsText(refit.before.step_time.count()),
                          SecondsText(refit.after.step_time.count())));
  }
  if (refitted.run.peak_memory) {
    PrintNote(fmt::format("peak memory: measured {} GiB, estimated {}, refitted {}",
                          GibText(refitted.run.peak_memory->count),
                          GibText(refit.before.peak_memory.count),
                          GibText(refit.after.peak_memory.count)));
  }
}

int RunRefit(const RefitOptions& options, const GlobalFlags& flags) {
  const auto refitted = RefitRun(options, flags);
  if (!refitted.ok()) {
    const FieldNames names = {{.field = "server", .flag = "--server"},
                              {.field = "fact", .flag = "--fact"},
                              {.field = "run", .flag = "--run", .file = options.run}};
    return Fail(NamedAsStated(refitted.status(), names), flags.output);
  }
  for (const std::string& warning : refitted->refit.after.warnings) {
    PrintNote("warning: " + warning);
  }
  PrintChange(*refitted);
  PrintData(PrintJson(FrameworkOf(*refitted), {.multiline = true}) + "\n");
  return kExitDone;
}

}  // namespace

void AddRefitCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<RefitOptions>();
  CLI::App& command = *app.add_subcommand(
      "refit",
      "fit constants of the framework's profile to one measured run; prints workload.framework");
  command.add_option("--run", options->run, "one line as for `--history`; - is stdin")->required();
  command
      .add_option("--fact", options->facts,
                  "constant to fit: at most one by the step time, and one by the peak memory")
      ->required();
  command.callback([options, &program] {
    program.run = [options, &program] { return RunRefit(*options, program.flags); };
  });
}

}  // namespace meshwright
