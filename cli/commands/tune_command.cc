#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/commands/sweep.h"
#include "cli/input/cluster_flags.h"
#include "cli/input/input_files.h"
#include "cli/input/stated_names.h"
#include "cli/input/tune_flags.h"
#include "cli/local/embedded_study.h"
#include "cli/local/local_models.h"
#include "cli/local/local_store.h"
#include "cli/program/field_names.h"
#include "cli/program/interrupt.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/progress_line.h"
#include "cli/reports/saved_answer.h"
#include "cli/reports/study_answer.h"
#include "cli/source/connection.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/engine/study_record.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

struct TuneOptions {
  TuneFlags question = {};
  SweepFlags sweep = {};
  bool leaves_no_record = false;
  std::string save_folder = {};  // empty: no files are written
};

AnswerForm FormOfTune(const TuneOptions& options, const GlobalFlags& flags) {
  AnswerForm form = FormOf(flags);
  form.save_folder = options.save_folder;
  form.notes.lists_all_kinds = options.question.plan_count.has_value();
  return form;
}

// Begins a study, which learns from the store whether or not the store keeps it.
absl::StatusOr<LocalStudy> Begin(ResolvedStudy asked, const Knowledge& knowledge,
                                 const std::string& store, bool leaves_no_record) {
  if (!leaves_no_record) return BeginLocalStudy(store, std::move(asked), knowledge);
  StudyRecord record = NewStudyRecord(asked, ProtobufCodec(knowledge));
  ASSIGN_OR_RETURN(HistorySource history,
                   LocalHistory(store, knowledge, asked.request.history_sequence));
  return LocalStudy{
      .record = std::move(record), .asked = std::move(asked), .history = std::move(history)};
}

int TuneEmbedded(const TuneOptions& options, const GlobalFlags& flags) {
  Parsed<v1::TuneRequest> asked = ReadTuneRequest(options.question, flags.chips);
  PrintNotes(asked.notes);
  const auto knowledge = LoadKnowledge(flags.chips);
  if (!knowledge.ok()) return Fail(knowledge.status(), flags.output);
  auto resolved = FromWire(asked.message, *knowledge, std::move(asked.violations));
  const FieldNames names = NamesOf(options.question);
  if (!resolved.ok()) return Fail(NamedAsStated(resolved.status(), names), flags.output);
  const auto models = LocalModels::Open(flags.cost_models);
  if (!models.ok()) return Fail(models.status(), flags.output);
  const auto study = Begin(*std::move(resolved), *knowledge, flags.store, options.leaves_no_record);
  if (!study.ok()) return Fail(study.status(), flags.output);
  const LocalSite site = {.knowledge = *knowledge,
                          .open_model = models->opener(),
                          .store = options.leaves_no_record ? "" : flags.store,
                          .form = FormOfTune(options, flags)};
  auto answer = RunLocalStudy(*study, site);
  if (!answer.ok()) answer = NamedAsStated(answer.status(), names);
  return ConcludeLocalStudy(answer, site, study->record);
}

absl::StatusOr<v1::GetStudyResponse> AskServer(const v1::TuneRequest& question, Client& client) {
  const Interrupt interrupt;
  v1::CreateStudyRequest request;
  *request.mutable_question() = question;
  ASSIGN_OR_RETURN(const v1::CreateStudyResponse created, client.CreateStudy(request));
  const std::string& id = created.study().id();
  ProgressLine progress_line;
  const auto show = [&](const v1::WatchStudyResponse& event) {
    if (event.has_progress()) progress_line.Show(event.progress());
  };
  if (const auto status = FollowStudy(client, id, show, interrupt.token()); !status.ok()) {
    if (!interrupt.token().stop_requested()) return status;
    return absl::CancelledError(fmt::format(
        "stopped watching, and the server continues the study; meshwright study watch {0} follows "
        "it, study cancel {0} ends it",
        id));
  }
  return client.GetStudy(id);
}

int TuneServed(const TuneOptions& options, const GlobalFlags& flags) {
  if (options.leaves_no_record) {
    PrintNote("error: --no-record: a server keeps all its studies");
    return kExitUsage;
  }
  const Parsed<v1::TuneRequest> asked = ReadTuneRequest(options.question, flags.chips);
  PrintNotes(asked.notes);
  const FieldNames names = NamesOf(options.question);
  if (!asked.violations.empty()) {
    return Fail(NamedAsStated(RequestMistakes(asked, flags), names), flags.output);
  }
  auto client = ConnectTo(flags);
  if (!client.ok()) return Fail(client.status(), flags.output);
  const auto answer = AskServer(asked.message, *client);
  if (!answer.ok()) return Fail(NamedAsStated(answer.status(), names), flags.output);
  AnswerForm form = FormOfTune(options, flags);
  form.notes.recorded =
      fmt::format("Study {} is kept by the server {}.", answer->study().id(), flags.server);
  return PrintAnswer(*answer, form);
}

int RunTune(const TuneOptions& options, const GlobalFlags& flags) {
  const TuneFlags& question = options.question;
  const bool is_sweep = !options.sweep.devices.empty() || !options.sweep.free_memory.empty() ||
                        !OtherClusters(question.question.cluster).empty() ||
                        question.max_days.has_value();
  if (!question.device_hour_prices.empty() && !question.token_count.has_value() && !is_sweep) {
    PrintNote(
        "error: --device-hour-price needs --tokens, or several answers (--devices, "
        "--free-memory, several of --cluster or --chip)");
    return kExitUsage;
  }
  if (is_sweep) {
    if (!question.baseline.empty() || question.plan_count.has_value() || question.pareto ||
        !options.save_folder.empty()) {
      PrintNote(
          "error: --devices, --free-memory, --days and several of --cluster or --chip give one "
          "plan for each point: no --baseline, no --top, no --pareto, no --save");
      return kExitUsage;
    }
    return RunSweepCommand(question, options.sweep, flags);
  }
  if (!options.save_folder.empty()) {
    const absl::Status made = MakeSaveFolder(options.save_folder);
    if (!made.ok()) return Fail(made, flags.output);
  }
  return flags.server.empty() ? TuneEmbedded(options, flags) : TuneServed(options, flags);
}

}  // namespace

void AddTuneCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<TuneOptions>();  // shared: the callback outlives this function
  CLI::App& command = *app.add_subcommand("tune", "find the fastest plan that fits");
  AddTuneOptions(command, options->question);
  command.add_option(
      "--devices", options->sweep.devices,
      "answer for several device counts instead: 64..1024 doubles from 64, 64,96 is a list");
  command
      .add_option("--free-memory", options->sweep.free_memory,
                  "answer for several shares of free memory instead: 0,0.1,0.2")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 0.999));
  TakeSeveralClusters(command);
  command
      .add_flag("--no-record", options->leaves_no_record,
                "do not store the study; it learns from the store all the same")
      ->group("Answer");
  command
      .add_option("--save", options->save_folder,
                  "also write the answer into this new folder: answer.json, report.txt, plots "
                  "(SVG), and the files of the plan to launch with launch.sh")
      ->group("Answer");
  for (const char* const name : {"--devices", "--free-memory"}) {
    command.get_option(name)->group("Sweeps: several questions at once");
  }
  command.callback([options, &program] {
    program.writes_csv = true;
    program.run = [options, &program] { return RunTune(*options, program.flags); };
  });
}

}  // namespace meshwright
