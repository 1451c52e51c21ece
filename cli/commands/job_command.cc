#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/commands/report_job.h"
#include "cli/input/history_flags.h"
#include "cli/input/input_files.h"
#include "cli/input/logged_report.h"
#include "cli/input/question_flags.h"
#include "cli/input/stated_names.h"
#include "cli/input/training_log.h"
#include "cli/local/local_history.h"
#include "cli/program/field_names.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/history_table.h"
#include "cli/reports/print_answer.h"
#include "cli/source/connection.h"
#include "proto/json/json.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/convert/history_wire.h"
#include "server/engine/history_queries.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

struct JobOptions {
  ReportFlags report = {};
  std::string file = {};  // empty: the flags are the report
  MeasurementFlags list = {};
};

int Report(const JobOptions& options, const GlobalFlags& flags) {
  if (options.file.empty()) {
    const Parsed<v1::CreateJobReportRequest> report = ReadReportFlags(options.report, flags.chips);
    PrintNotes(report.notes);
    return Print(
        NamedAsStated(KeepReport(report, flags, "meshwright job report"), NamesOf(options.report)),
        flags.output, ReportText);
  }
  if (options.report != ReportFlags()) {
    PrintNote("error: --file holds whole reports, so it takes no other flag of a report");
    return kExitUsage;
  }
  return Print(
      NamedAsStated(KeepReports(ReadReportsFile(options.file), flags, "meshwright job report"),
                    {{.field = "file", .flag = "--file", .file = options.file},
                     {.field = "requests", .flag = "--file", .file = options.file}}),
      flags.output, ReportsText);
}

absl::StatusOr<v1::ListJobReportsResponse> ListReports(const JobOptions& options,
                                                       const GlobalFlags& flags) {
  v1::ListJobReportsRequest request;
  request.set_page_size(options.list.page_size);
  request.set_page_token(options.list.page_token);
  ASSIGN_OR_RETURN(*request.mutable_filter(), FilterOf(options.list, flags.chips));
  if (flags.server.empty()) {
    ASSIGN_OR_RETURN(Recorder store, OpenLocalReader(flags.store));
    ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
    return ListJobReports(HistoryQueries(DirectAccess(store)), request, knowledge);
  }
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.ListJobReports(request);
}

void AddLogOptions(CLI::App& command, LoggedReportFlags& flags) {
  CLI::Option* const log = command.add_option(
      "--log", flags.log,
      "log of the job, instead of the step time and the peak memory; - is stdin");
  command
      .add_option(
          "--log-format", flags.log_format,
          fmt::format("format of its lines: one of {}; without it, the first that finds the "
                      "time of a step",
                      fmt::join(LogFormats(), ", ")))
      ->needs(log);
  command
      .add_option("--warmup-steps", flags.warmup_steps,
                  "steps of the log up to this number do not count, nor does its first line (5)")
      ->needs(log)
      ->check(CLI::NonNegativeNumber);
}

void AddReportOptions(CLI::App& command, JobOptions& options) {
  ReportFlags& flags = options.report;
  command.add_option("--study", flags.study_id, "id of the study whose plan was launched");
  command.add_option("--rank", flags.rank, "rank of its plan (1); 0: its baseline");
  AddQuestionOptions(command, flags.question);
  command.add_option("--plan", flags.plan,
                     "YAML or JSON file with the plan that ran, instead of --rank");
  command.add_option("--framework-version", flags.framework_version,
                     "framework version that the job ran, if it differs from the question's");
  command.add_option("--outcome", flags.outcome, "one of ok, oom, crash, hang, timeout, cancelled");
  command.add_option("--step-time", flags.step_time_seconds,
                     "median seconds of a step after warm-up; required with ok, unless there is a "
                     "--log");
  AddLogOptions(command, flags.logged);
  command.add_option("--peak-memory", flags.peak_memory_bytes,
                     "peak bytes of the allocator on the busiest device");
  command.add_flag("--confirm", flags.is_confirmed,
                   "the step time is right, although it is more than 100 times the expected one");
  command.add_option("--job", flags.job_name, "name of the job");
  command.add_option("--note", flags.note, "note to store with the report");
  command.add_option("--request-id", flags.request_id,
                     "a repeated call with the same id stores only one report");
  command.add_option(
      "--file", options.file,
      "JSON lines with one report each, instead of the flags; all are stored or none; - is stdin");
}

}  // namespace

void AddJobCommand(CLI::App& app, Program& program) {
  CLI::App& group = *app.add_subcommand("job", "report and list the results of launched jobs");
  group.require_subcommand(1);
  auto options = std::make_shared<JobOptions>();
  CLI::App& report = *group.add_subcommand(
      "report", "store the result of a job, so that later answers learn from it");
  AddReportOptions(report, *options);
  report.callback([options, &program] {
    program.run = [options, &program] { return Report(*options, program.flags); };
  });
  CLI::App& list =
      *group.add_subcommand("list", "list job reports beside what was expected, newest first");
  AddMeasurementOptions(list, options->list);
  list.callback([options, &program] {
    program.run = [options, &program] {
      return Print(NamedAsStated(ListReports(*options, program.flags), NamesOf(options->list)),
                   program.flags.output, ReportTable);
    };
  });
}

}  // namespace meshwright
