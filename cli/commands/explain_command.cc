#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/input/input_files.h"
#include "cli/input/stated_names.h"
#include "cli/input/tune_flags.h"
#include "cli/local/local_models.h"
#include "cli/local/local_store.h"
#include "cli/program/answer_head.h"
#include "cli/program/field_names.h"
#include "cli/program/interrupt.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/explain_report.h"
#include "cli/reports/print_answer.h"
#include "cli/source/connection.h"
#include "server/convert/convert.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/answers/explain.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

absl::StatusOr<v1::ExplainPlanResponse> AskFor(Parsed<v1::TuneRequest> asked,
                                               const GlobalFlags& flags) {
  const Interrupt interrupt;
  if (flags.server.empty()) {
    ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
    ASSIGN_OR_RETURN(ResolvedStudy study,
                     FromWire(asked.message, knowledge, std::move(asked.violations)));
    ASSIGN_OR_RETURN(HistorySource history,
                     LocalHistory(flags.store, knowledge, study.request.history_sequence));
    ASSIGN_OR_RETURN(const LocalModels models, LocalModels::Open(flags.cost_models));
    ASSIGN_OR_RETURN(const Explanation explanation, Explain(std::move(study), knowledge,
                                                            {.cancel = interrupt.token(),
                                                             .history = std::move(history),
                                                             .open_model = models.opener()}));
    return ToWire(explanation);
  }
  if (!asked.violations.empty()) return RequestMistakes(asked, flags);
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  v1::ExplainPlanRequest request;
  *request.mutable_question() = asked.message;
  return client.ExplainPlan(request, {.cancel = interrupt.token()});
}

int RunExplain(const TuneFlags& question, const GlobalFlags& flags) {
  Parsed<v1::TuneRequest> asked = ReadTuneRequest(question, flags.chips);
  PrintNotes(asked.notes);
  const v1::AnswerHead head = HeadOf(kExitDone, "", asked.message);
  const auto answer = AskFor(std::move(asked), flags);
  if (!answer.ok()) {
    return Fail(NamedAsStated(answer.status(), NamesOf(question)), flags.output);
  }
  if (flags.output == OutputForm::kJson) {
    PrintJsonAnswer(*answer, head);
  } else {
    PrintData(ExplainReport(ForTerminal(*answer), StdoutColumns()));
  }
  return kExitDone;
}

}  // namespace

void AddExplainCommand(CLI::App& app, Program& program) {
  auto question = std::make_shared<TuneFlags>();
  CLI::App& command = *app.add_subcommand(
      "explain", "explain why the best plan is best or, with --baseline, why that plan is not");
  AddTuneOptions(command, *question);
  command.callback([question, &program] {
    program.run = [question, &program] { return RunExplain(*question, program.flags); };
  });
}

}  // namespace meshwright
