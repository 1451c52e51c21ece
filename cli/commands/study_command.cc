#include "cli/commands/study_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/study_remarks.h"
#include "cli/input/history_flags.h"
#include "cli/input/input_files.h"
#include "cli/input/stated_names.h"
#include "cli/input/tune_flags.h"
#include "cli/local/embedded_study.h"
#include "cli/local/local_models.h"
#include "cli/local/local_store.h"
#include "cli/program/answer_head.h"
#include "cli/program/exit_code.h"
#include "cli/program/field_names.h"
#include "cli/program/interrupt.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/csv_lists.h"
#include "cli/reports/print_answer.h"
#include "cli/reports/progress_line.h"
#include "cli/reports/study_answer.h"
#include "cli/reports/study_table.h"
#include "cli/reports/tune_report.h"
#include "cli/source/connection.h"
#include "cli/source/stored_study.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/convert/status_wire.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

struct StudyOptions {
  std::string id = {};
  std::optional<int> trial = {};
  int page_size = 0;  // 0: the store's own
  std::string page_token = {};
  StudyFilterFlags filter = {};
  std::string trial_order = {};  // empty: as they were begun
  TuneFlags question = {};
  std::string new_id = {};                        // empty: the server makes one
  std::string request_id = {};                    // empty: none
  std::vector<int> retried = {};                  // numbers of trials; empty: all that have failed
  std::vector<std::string> retried_classes = {};  // only failures of these; empty: of all
  bool retracts_measurements = false;
};

using StudyAction = int (*)(const StudyOptions&, const GlobalFlags&);

absl::StatusOr<v1::ListStudiesResponse> ListStudies(const StudyOptions& options,
                                                    const GlobalFlags& flags) {
  v1::ListStudiesRequest request;
  request.set_page_size(options.page_size);
  request.set_page_token(options.page_token);
  ASSIGN_OR_RETURN(*request.mutable_filter(), FilterOf(options.filter));
  if (flags.server.empty()) return ListLocalStudies(flags.store, request);
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.ListStudies(request);
}

int List(const StudyOptions& options, const GlobalFlags& flags) {
  return PrintList(NamedAsStated(ListStudies(options, flags), NamesOfStudyFilter()), flags.output,
                   StudyTable, StudiesCsv);
}

// Shows the study in whatever state it is. A failed study is no error here: it was found, as asked.
int Show(const StudyOptions& options, const GlobalFlags& flags) {
  const auto study = GetStudy(options.id, flags);
  if (!study.ok()) return Fail(study.status(), flags.output);
  if (flags.output == OutputForm::kJson) {
    v1::AnswerHead head = HeadOf(kExitDone);
    head.set_study_id(options.id);
    PrintJsonAnswer(*study, head);  // which has the question
  } else {
    PrintData(StudyReport(ForTerminal(*study), NotesForTerminal(flags)));
  }
  return kExitDone;
}

absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(const v1::ListAttemptsRequest& request,
                                                      const GlobalFlags& flags) {
  if (flags.server.empty()) return ListLocalAttempts(flags.store, request);
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.ListAttempts(request);
}

int Attempts(const StudyOptions& options, const GlobalFlags& flags) {
  v1::ListAttemptsRequest request;
  request.set_study_id(options.id);
  if (options.trial.has_value()) request.set_trial_number(*options.trial);
  return Print(ListAttempts(request, flags), flags.output, AttemptTable);
}

absl::StatusOr<v1::ListPlansResponse> ListPlans(const StudyOptions& options,
                                                const GlobalFlags& flags) {
  v1::ListPlansRequest request;
  request.set_study_id(options.id);
  request.set_page_size(options.page_size);
  request.set_page_token(options.page_token);
  if (flags.server.empty()) return ListLocalPlans(flags.store, request);
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.ListPlans(request);
}

int Plans(const StudyOptions& options, const GlobalFlags& flags) {
  return PrintList(ListPlans(options, flags), flags.output, PlanTable, PlansCsv);
}

absl::StatusOr<v1::ListTrialsResponse> ListTrials(const StudyOptions& options,
                                                  const GlobalFlags& flags) {
  v1::ListTrialsRequest request;
  request.set_study_id(options.id);
  request.set_page_size(options.page_size);
  request.set_page_token(options.page_token);
  if (!options.trial_order.empty()) request.set_order(options.trial_order);
  if (flags.server.empty()) return ListLocalTrials(flags.store, request);
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.ListTrials(request);
}

int Trials(const StudyOptions& options, const GlobalFlags& flags) {
  return Print(ListTrials(options, flags), flags.output, TrialTable);
}

int PrintStudy(const v1::Study& study, OutputForm output) {
  if (output == OutputForm::kJson) {
    v1::AnswerHead head = HeadOf(kExitDone);
    head.set_study_id(study.id());
    PrintJsonAnswer(study, head);
    return kExitDone;
  }
  v1::ListStudiesResponse studies;
  *studies.add_studies() = study;
  PrintData(StudyTable(ForTerminal(studies), StdoutColumns()));
  return kExitDone;
}

int Create(const StudyOptions& options, const GlobalFlags& flags) {
  const Parsed<v1::TuneRequest> asked = ReadTuneRequest(options.question, flags.chips);
  PrintNotes(asked.notes);
  FieldNames names = NamesOf(options.question);
  names.insert(names.end(), {{.field = "study_id", .flag = "--study-id"},
                             {.field = "request_id", .flag = "--request-id"}});
  if (!asked.violations.empty()) {
    return Fail(NamedAsStated(RequestMistakes(asked, flags), names), flags.output);
  }
  v1::CreateStudyRequest request;
  *request.mutable_question() = asked.message;
  if (!options.new_id.empty()) request.set_study_id(options.new_id);
  if (!options.request_id.empty()) request.set_request_id(options.request_id);
  auto client = ConnectTo(flags);
  if (!client.ok()) return Fail(client.status(), flags.output);
  const auto created = client->CreateStudy(request);
  if (!created.ok()) return Fail(NamedAsStated(created.status(), names), flags.output);
  return PrintStudy(created->study(), flags.output);
}

// Prints events to stdout as they come. The answer of the study is printed by `study show`.
int Watch(const StudyOptions& options, const GlobalFlags& flags) {
  const Interrupt interrupt;
  auto client = ConnectTo(flags);
  if (!client.ok()) return Fail(client.status(), flags.output);
  const auto print = [&](const v1::WatchStudyResponse& event) {
    PrintData(flags.output == OutputForm::kJson ? PrintJson(event, {}) + "\n"
                                                : EventLine(ForTerminal(event)));
    std::fflush(stdout);
  };
  const absl::Status status = FollowStudy(*client, options.id, print, interrupt.token());
  if (!status.ok()) return Fail(status, flags.output);
  const auto answer = client->GetStudy(options.id);
  if (!answer.ok()) return Fail(answer.status(), flags.output);
  return ExitCode(EndingStatus(*answer));
}

// Resumes a study that an earlier process left in the store.
int TakeUp(const std::string& id, LeftStudy wanted, const GlobalFlags& flags,
           int (*action)(const LocalStudy&, const LocalSite&)) {
  const auto knowledge = LoadKnowledge(flags.chips);
  if (!knowledge.ok()) return Fail(knowledge.status(), flags.output);
  const auto models = LocalModels::Open(flags.cost_models);
  if (!models.ok()) return Fail(models.status(), flags.output);
  const auto study = TakeLocalStudy(flags.store, id, wanted, *knowledge);
  if (!study.ok()) return Fail(study.status(), flags.output);
  return action(*study, {.knowledge = *knowledge,
                         .open_model = models->opener(),
                         .store = flags.store,
                         .form = FormOf(flags)});
}

// Puts a study back into the store after a failure that may not happen again, such as a missing
// folder of models or an engine that does not answer.
int PutBack(const absl::Status& failure, const LocalStudy& study, const LocalSite& site) {
  const absl::Status left = LeaveLocalStudy(site.store, study.record.id);
  PrintNote(fmt::format("study {} is unchanged", study.record.id));
  return Fail(left.ok() ? failure : left, site.form.output);
}

int GoOn(const LocalStudy& study, const LocalSite& site) {
  const auto answer = RunLocalStudy(study, site);
  const bool has_failed = !answer.ok() && !absl::IsCancelled(answer.status());
  return has_failed ? PutBack(answer.status(), study, site)
                    : ConcludeLocalStudy(answer, site, study.record);
}

int Stop(const LocalStudy& study, const LocalSite& site) {
  const auto ended = CancelLocalStudy(study, site);
  return ended.ok() ? PrintStudy(ToWire(*ended), site.form.output)
                    : PutBack(ended.status(), study, site);
}

// Has the server change the state of a study by a call of the client.
template <typename Response>
int ChangeState(absl::StatusOr<Response> (Client::*call)(const std::string&),
                const StudyOptions& options, const GlobalFlags& flags) {
  auto client = ConnectTo(flags);
  if (!client.ok()) return Fail(client.status(), flags.output);
  const absl::StatusOr<Response> changed = (*client.*call)(options.id);
  if (!changed.ok()) return Fail(changed.status(), flags.output);
  return PrintStudy(changed->study(), flags.output);
}

int Pause(const StudyOptions& options, const GlobalFlags& flags) {
  return ChangeState(&Client::PauseStudy, options, flags);
}

int Resume(const StudyOptions& options, const GlobalFlags& flags) {
  if (flags.server.empty()) return TakeUp(options.id, LeftStudy::kToGoOn, flags, &GoOn);
  return ChangeState(&Client::ResumeStudy, options, flags);
}

int Cancel(const StudyOptions& options, const GlobalFlags& flags) {
  if (flags.server.empty()) return TakeUp(options.id, LeftStudy::kToEnd, flags, &Stop);
  return ChangeState(&Client::CancelStudy, options, flags);
}

absl::StatusOr<v1::DeleteStudyResponse> DeleteIn(const GlobalFlags& flags,
                                                 const v1::DeleteStudyRequest& request) {
  if (flags.server.empty()) return DeleteLocalStudy(flags.store, request);
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.DeleteStudy(request);
}

int Delete(const StudyOptions& options, const GlobalFlags& flags) {
  v1::DeleteStudyRequest request;
  request.set_study_id(options.id);
  if (options.retracts_measurements) request.set_retract_measurements(true);
  if (!options.request_id.empty()) request.set_request_id(options.request_id);
  return Print(DeleteIn(flags, request), flags.output, DeletionText);
}

// Runs failed trials again: a server in its queue, and a command without one by itself.
int Retry(const StudyOptions& options, const GlobalFlags& flags) {
  v1::RetryTrialsRequest request;
  request.set_study_id(options.id);
  request.mutable_trial_numbers()->Assign(options.retried.begin(), options.retried.end());
  request.mutable_failure_classes()->Assign(options.retried_classes.begin(),
                                            options.retried_classes.end());
  const FieldNames names = {{.field = "trial_numbers", .flag = "--trial"},
                            {.field = "failure_classes", .flag = "--failure-class"}};
  if (flags.server.empty()) {
    const auto reopened = ReopenLocalStudy(flags.store, request);
    if (!reopened.ok()) return Fail(NamedAsStated(reopened.status(), names), flags.output);
    return TakeUp(options.id, LeftStudy::kToGoOn, flags, &GoOn);
  }
  if (!options.request_id.empty()) request.set_request_id(options.request_id);
  auto client = ConnectTo(flags);
  if (!client.ok()) return Fail(client.status(), flags.output);
  const auto retried = client->RetryTrials(request);
  if (!retried.ok()) return Fail(NamedAsStated(retried.status(), names), flags.output);
  return PrintStudy(retried->study(), flags.output);
}

struct StudyCommand {
  const char* name;
  const char* help;
  StudyAction action;
  bool needs_server;
  bool writes_csv = false;
};

// Adds an action that `run` is set to; returns its command, to which options can be added.
CLI::App& AddAction(CLI::App& group, const StudyCommand& row,
                    const std::shared_ptr<StudyOptions>& options, Program& program) {
  CLI::App& command = *group.add_subcommand(row.name, row.help);
  command.callback([row, options, &program] {
    program.writes_csv = row.writes_csv;
    program.run = [row, options, &program] {
      if (row.needs_server && program.flags.server.empty()) {
        PrintNote(fmt::format("error: study {} needs --server", row.name));
        return kExitUsage;
      }
      return row.action(*options, program.flags);
    };
  });
  return command;
}

void AddPageOptions(CLI::App& command, const char* what, StudyOptions& options) {
  command.add_option("--page-size", options.page_size, fmt::format("most {} to print (50)", what));
  command.add_option("--page-token", options.page_token,
                     "continue after the page that printed this token");
}

void AddRequestId(CLI::App& command, StudyOptions& options) {
  command.add_option("--request-id", options.request_id,
                     "a repeated call to a server with the same id gets the first answer");
}

// The lists of what a study has.
void AddLists(CLI::App& group, const std::shared_ptr<StudyOptions>& options, Program& program) {
  CLI::App& plans = AddAction(
      group, {"plans", "list the plans that a study ranked, best first", Plans, false, true},
      options, program);
  plans.add_option("id", options->id, "id of the study")->required();
  AddPageOptions(plans, "plans", *options);
  CLI::App& trials = AddAction(group, {"trials", "list the plans that a study ran", Trials, false},
                               options, program);
  trials.add_option("id", options->id, "id of the study")->required();
  trials.add_option("--order", options->trial_order, "order: begun (default) or fastest");
  AddPageOptions(trials, "trials", *options);
  CLI::App& attempts = AddAction(
      group, {"attempts", "list the jobs of a study's trials", Attempts, false}, options, program);
  attempts.add_option("id", options->id, "id of the study")->required();
  attempts.add_option("--trial", options->trial, "only this trial, with its output");
}

CLI::App& AddListAndShow(CLI::App& app, const char* name, const char* help,
                         const std::shared_ptr<StudyOptions>& options, Program& program) {
  CLI::App& group = *app.add_subcommand(name, help);
  group.require_subcommand(1);
  CLI::App& list =
      AddAction(group, {"list", "list studies, newest first", List, false, true}, options, program);
  AddPageOptions(list, "studies", *options);
  AddStudyFilterOptions(list, options->filter);
  CLI::App& show =
      AddAction(group, {"show", "show a study with its answer", Show, false}, options, program);
  show.add_option("id", options->id, "id of the study")->required();
  return group;
}

}  // namespace

int ShowStoredStudy(const std::string& id, const GlobalFlags& flags) {
  StudyOptions options;
  options.id = id;
  return Show(options, flags);
}

int ListStudyPage(int page_size, const std::string& page_token, const GlobalFlags& flags) {
  StudyOptions options;
  options.page_size = page_size;
  options.page_token = page_token;
  return List(options, flags);
}

void AddStudyCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<StudyOptions>();
  CLI::App& group = AddListAndShow(
      app, "study", "run and read studies of a server, or of the local store", options, program);
  AddLists(group, options, program);
  AddReviewCommands(group, program);
  CLI::App& create =
      AddAction(group, {"create", "start a study on the server and return at once", Create, true},
                options, program);
  AddTuneOptions(create, options->question);
  create.add_option("--study-id", options->new_id, "id of the study (made by the server)");
  create.add_option("--request-id", options->request_id,
                    "a repeated call with the same id creates only one study");
  CLI::App& watch =
      AddAction(group, {"watch", "follow a study to its end", Watch, true}, options, program);
  watch.add_option("id", options->id, "id of the study")->required();
  CLI::App& pause =
      AddAction(group, {"pause", "stop a study of the server until it is resumed", Pause, true},
                options, program);
  pause.add_option("id", options->id, "id of the study")->required();
  CLI::App& resume = AddAction(
      group,
      {"resume", "resume a paused study, or a local one whose process has ended", Resume, false},
      options, program);
  resume.add_option("id", options->id, "id of the study")->required();
  CLI::App& retry = AddAction(
      group, {"retry", "run failed trials of a study again, and then answer anew", Retry, false},
      options, program);
  retry.add_option("id", options->id, "id of the study")->required();
  CLI::Option* const trial = retry.add_option("--trial", options->retried,
                                              "number of a trial to run again (all that failed)");
  retry
      .add_option(
          "--failure-class", options->retried_classes,
          "run the trials again whose newest attempt ended with this class: crash, timeout, "
          "node_failure ... "
          "(study trials --output json; all classes)")
      ->type_name("CLASS")
      ->excludes(trial);
  AddRequestId(retry, *options);
  CLI::App& remove = AddAction(
      group, {"delete", "delete a study that has ended; its measurements stay", Delete, false},
      options, program);
  remove.add_option("id", options->id, "id of the study")->required();
  remove.add_flag("--retract-measurements", options->retracts_measurements,
                  "also mark its measurements as wrong, so that nothing is learnt from them");
  AddRequestId(remove, *options);
  CLI::App& cancel =
      AddAction(group, {"cancel", "end a study; its answer is the best plan so far", Cancel, false},
                options, program);
  cancel.add_option("id", options->id, "id of the study")->required();
}

}  // namespace meshwright
