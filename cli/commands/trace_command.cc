#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/input/input_files.h"
#include "cli/input/stated_case.h"
#include "cli/input/stated_names.h"
#include "cli/program/field_names.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/words.h"
#include "estimator/model/analytic_model.h"
#include "search_space/base/count_text.h"
#include "search_space/base/status.h"
#include "server/process/exit_code.h"
#include "server/tuner/answers/timeline.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace {

struct TraceOptions {
  CaseFlags stated = {};
  std::string history = {};  // empty: none
};

absl::StatusOr<Timeline> TimelineFor(const TraceOptions& options, const GlobalFlags& flags) {
  if (!flags.server.empty()) {
    return InvalidFields(
        {{.field = "server",
          .description = flags.server + "; must be absent: trace only runs in this program"}});
  }
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const ResolvedCase asked,
                   ResolveStatedCase(options.stated, knowledge, flags.chips));
  ASSIGN_OR_RETURN(const History history, ReadHistory(options.history, knowledge));
  return TimelineOfPlan(asked, knowledge, history.rows);
}

int RunTrace(const TraceOptions& options, const GlobalFlags& flags) {
  const auto timeline = TimelineFor(options, flags);
  if (!timeline.ok()) {
    FieldNames names = NamesOf(options.stated);
    names.insert(names.end(), {{.field = "server", .flag = "--server"},
                               {.field = "history", .flag = "--history", .file = options.history}});
    return Fail(NamedAsStated(timeline.status(), names), flags.output);
  }
  PrintNote(fmt::format("{} operations, step {}; open the file at https://ui.perfetto.dev",
                        CountText(static_cast<std::int64_t>(timeline->operations.size())),
                        SecondsText(timeline->step.count())));
  PrintData(TraceEvents(*timeline));
  return kExitDone;
}

}  // namespace

void AddTraceCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App& command =
      *app.add_subcommand("trace", "write one plan's pipeline over time, for Perfetto");
  AddCaseOptions(command, options->stated);
  command.parse_complete_callback([options] { RequireCase(options->stated); });
  command.add_option("--history", options->history,
                     "JSON lines with measured results of earlier runs");
  command.callback([options, &program] {
    program.run = [options, &program] { return RunTrace(*options, program.flags); };
  });
}

}  // namespace meshwright
