#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/commands/sweep.h"
#include "cli/input/input_files.h"
#include "cli/input/tune_flags.h"
#include "cli/local/embedded_study.h"
#include "cli/local/local_models.h"
#include "cli/local/local_store.h"
#include "cli/program/interrupt.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/print_answer.h"
#include "cli/reports/progress_line.h"
#include "cli/reports/study_answer.h"
#include "cli/reports/tune_report.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/engine/study_record.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace {

struct TuneOptions {
  TuneFlags question = {};
  SweepFlags sweep = {};
  bool leaves_no_record = false;
};

absl::StatusOr<LocalStudy> Begin(ResolvedStudy asked, const Knowledge& knowledge,
                                 const std::string& store) {
  if (!store.empty()) return BeginLocalStudy(store, std::move(asked), knowledge);
  StudyRecord record = NewStudyRecord(asked, ProtobufCodec(knowledge));
  return LocalStudy{.record = std::move(record), .asked = std::move(asked)};
}

int TuneEmbedded(const TuneOptions& options, const GlobalFlags& flags) {
  Parsed<v1::TuneRequest> asked = ReadTuneRequest(options.question);
  PrintNotes(asked.notes);
  const auto knowledge = LoadKnowledge(flags.chips);
  if (!knowledge.ok()) return Fail(knowledge.status(), flags.output);
  auto resolved = FromWire(asked.message, *knowledge, std::move(asked.violations));
  if (!resolved.ok()) return Fail(resolved.status(), flags.output);
  const auto models = LocalModels::Open(flags.cost_models);
  if (!models.ok()) return Fail(models.status(), flags.output);
  const std::string store = options.leaves_no_record ? "" : flags.store;
  const auto study = Begin(*std::move(resolved), *knowledge, store);
  if (!study.ok()) return Fail(study.status(), flags.output);
  const LocalSite site = {.knowledge = *knowledge,
                          .open_model = models->opener(),
                          .store = store,
                          .is_verbose = flags.is_verbose};
  return ConcludeLocalStudy(RunLocalStudy(*study, site), site, study->record, flags.output);
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
  const Parsed<v1::TuneRequest> asked = ReadTuneRequest(options.question);
  PrintNotes(asked.notes);
  if (!asked.violations.empty()) return Fail(RequestMistakes(asked, flags), flags.output);
  auto client = Client::Connect(flags.server);
  if (!client.ok()) return Fail(client.status(), flags.output);
  const auto answer = AskServer(asked.message, *client);
  if (!answer.ok()) return Fail(answer.status(), flags.output);
  ReportNotes notes = NotesForTerminal(flags.is_verbose);
  notes.recorded =
      fmt::format("Study {} is kept by the server {}.", answer->study().id(), flags.server);
  return PrintAnswer(*answer, notes, flags.output);
}

}  // namespace

void AddTuneCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<TuneOptions>();  // shared: the callback outlives this function
  CLI::App& command = *app.add_subcommand("tune", "find the fastest plan that fits");
  AddQuestionOptions(command, options->question);
  command.add_option(
      "--devices", options->sweep.devices,
      "answer for several device counts instead: 64..1024 doubles from 64, 64,96 is a list");
  command
      .add_option("--free-memory", options->sweep.free_memory,
                  "answer for several shares of free memory instead: 0,0.1,0.2")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 0.999));
  command
      .add_option("--device-hour-price", options->sweep.device_hour_price,
                  "with --devices or --free-memory: also show the price of a million tokens")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--no-record", options->leaves_no_record, "do not store the study");
  command.callback([options, &program] {
    program.run = [options, &program] {
      const bool is_sweep = !options->sweep.devices.empty() || !options->sweep.free_memory.empty();
      if (options->sweep.device_hour_price.has_value() && !is_sweep) {
        PrintNote("error: --device-hour-price needs --devices or --free-memory");
        return kExitUsage;
      }
      if (is_sweep) {
        const TuneFlags& question = options->question;
        if (!question.baseline.empty() || question.plan_count.has_value() || question.pareto) {
          PrintNote(
              "error: --devices and --free-memory answer with one plan each: no --baseline, "
              "no --top, no --pareto");
          return kExitUsage;
        }
        return RunSweepCommand(options->question, options->sweep, program.flags);
      }
      return program.flags.server.empty() ? TuneEmbedded(*options, program.flags)
                                          : TuneServed(*options, program.flags);
    };
  });
}

}  // namespace meshwright
