#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/commands/report_job.h"
#include "cli/commands/study_command.h"
#include "cli/input/history_flags.h"
#include "cli/input/input_files.h"
#include "cli/input/known_chips.h"
#include "cli/input/question_flags.h"
#include "cli/input/stated_names.h"
#include "cli/input/training_log.h"
#include "cli/local/local_history.h"
#include "cli/local/local_store.h"
#include "cli/program/field_names.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/csv_lists.h"
#include "cli/reports/history_table.h"
#include "cli/reports/print_answer.h"
#include "cli/source/connection.h"
#include "proto/json/json.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "recorder/transfer.h"
#include "search_space/base/status.h"
#include "search_space/digest/sha256.h"
#include "server/changes/retraction.h"
#include "server/convert/convert.h"
#include "server/convert/history_wire.h"
#include "server/engine/history_queries.h"
#include "server/engine/spool.h"
#include "server/engine/wall_clock.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

struct HistoryOptions {
  MeasurementFlags rows = {};
  std::string source = {};
  std::string order = {};
  std::string id = {};
  std::string reason = {};
  std::string file = {};
  bool validate_only = false;
  std::string conflict_policy = {};
  ReportFlags log = {};  // of a training log, instead of an export
};

constexpr std::size_t kPartBytes = 65'536;

// Returns the answer of the server if one is named, or else of the local store.
template <typename Served, typename Embedded>
auto Ask(const GlobalFlags& flags, const Served& served, const Embedded& embedded)
    -> decltype(embedded(std::declval<const HistoryQueries&>())) {
  const FieldNames names = NamesOf(MeasurementFlags());
  if (flags.server.empty()) {
    ASSIGN_OR_RETURN(Recorder store, OpenLocalReader(flags.store));
    return NamedAsStated(embedded(HistoryQueries(DirectAccess(store))), names);
  }
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return NamedAsStated(served(client), names);
}

int List(const HistoryOptions& options, const GlobalFlags& flags) {
  return ListStudyPage(options.rows.page_size, options.rows.page_token, flags);
}

int Measurements(const HistoryOptions& options, const GlobalFlags& flags) {
  v1::ListMeasurementsRequest request;
  request.set_page_size(options.rows.page_size);
  request.set_page_token(options.rows.page_token);
  auto filter = FilterOf(options.rows, flags.chips);
  if (!filter.ok()) {
    return Fail(NamedAsStated(filter.status(), NamesOf(options.rows)), flags.output);
  }
  *request.mutable_filter() = *std::move(filter);
  if (!options.source.empty()) request.mutable_filter()->set_source(options.source);
  if (!options.order.empty()) request.set_order(options.order);
  return PrintList(
      Ask(
          flags, [&](Client& client) { return client.ListMeasurements(request); },
          [&](const HistoryQueries& history) { return ListMeasurements(history, request); }),
      flags.output, MeasurementTable, MeasurementsCsv);
}

int Calibrations(const HistoryOptions& options, const GlobalFlags& flags) {
  v1::ListCalibrationsRequest request;
  request.set_page_size(options.rows.page_size);
  request.set_page_token(options.rows.page_token);
  const auto chip = ChipIdOf(flags.chips, options.rows.chip);
  if (!chip.ok()) return Fail(NamedAsStated(chip.status(), NamesOf(options.rows)), flags.output);
  if (!chip->empty()) request.set_chip(*chip);
  return Print(
      Ask(
          flags, [&](Client& client) { return client.ListCalibrations(request); },
          [&](const HistoryQueries& history) { return ListCalibrations(history, request); }),
      flags.output, CalibrationTable);
}

// Returns true for ids made of a prefix and 32 hexadecimal digits ("m-", "calibration-":
// server/engine/measurement.h). Studies have other ids.
bool IsDigestWith(std::string_view prefix, std::string_view id) {
  constexpr std::size_t kDigits = 32;
  return id.starts_with(prefix) && id.size() == prefix.size() + kDigits &&
         id.substr(prefix.size()).find_first_not_of("0123456789abcdef") == id.npos;
}

int ShowMeasurement(const std::string& id, const GlobalFlags& flags) {
  const auto knowledge = LoadKnowledge(flags.chips);
  if (!knowledge.ok()) return Fail(knowledge.status(), flags.output);
  return Print(Ask(
                   flags, [&](Client& client) { return client.GetMeasurement(id); },
                   [&](const HistoryQueries& history) {
                     return GetMeasurement(history, id, ProtobufCodec(*knowledge));
                   }),
               flags.output, MeasurementText);
}

int Show(const HistoryOptions& options, const GlobalFlags& flags) {
  const std::string& id = options.id;
  if (IsDigestWith("m-", id)) return ShowMeasurement(id, flags);
  if (!IsDigestWith("calibration-", id)) return ShowStoredStudy(id, flags);
  return Print(Ask(
                   flags, [&](Client& client) { return client.GetCalibration(id); },
                   [&](const HistoryQueries& history) { return GetCalibration(history, id); }),
               flags.output, CalibrationText);
}

absl::StatusOr<v1::RetractMeasurementResponse> RetractIn(
    const GlobalFlags& flags, const v1::RetractMeasurementRequest& request) {
  if (!flags.server.empty()) {
    ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
    return client.RetractMeasurement(request);
  }
  // Reading comes first, because a writer would create a missing store.
  const auto reader = Recorder::Open({.path = flags.store, .read_only = true});
  if (absl::IsNotFound(reader.status())) return reader.status();
  ASSIGN_OR_RETURN(Recorder store, OpenLocalWriter(flags.store, "meshwright history retract"));
  return RetractMeasurement(DirectAccess(store), request, NowMs());
}

int Retract(const HistoryOptions& options, const GlobalFlags& flags) {
  v1::RetractMeasurementRequest request;
  request.set_measurement_id(options.id);
  request.set_reason(options.reason);
  return Print(NamedAsStated(RetractIn(flags, request), NamesOf(options.rows)), flags.output,
               RetractionText);
}

int Export(const HistoryOptions& options, const GlobalFlags& flags) {
  v1::ExportHistoryRequest request;
  auto filter = FilterOf(options.rows, flags.chips);
  if (!filter.ok()) {
    return Fail(NamedAsStated(filter.status(), NamesOf(options.rows)), flags.output);
  }
  *request.mutable_filter() = *std::move(filter);
  if (!options.source.empty()) request.mutable_filter()->set_source(options.source);
  const auto print = [](const std::string& part) {
    PrintData(part);
    return absl::OkStatus();
  };
  const absl::Status status = Ask(
      flags, [&](Client& client) { return client.ExportHistory(request, print); },
      [&](const HistoryQueries& history) { return ExportHistory(history, request, print); });
  return status.ok() ? kExitDone : Fail(status, flags.output);
}

// Goes back to the start of a file; a pipe has no way back.
absl::Status Rewind(std::istream& in) {
  in.clear();
  if (in.seekg(0)) return absl::OkStatus();
  in.clear();
  return absl::UnavailableError("the file to import cannot be read from its start again");
}

// Copies a pipe to a file, because an import reads its lines twice.
absl::StatusOr<Spool> SpoolOf(std::istream& in) {
  ASSIGN_OR_RETURN(Spool spool, Spool::Open());
  std::string part(kPartBytes, '\0');
  while (in.read(part.data(), static_cast<std::streamsize>(part.size())), in.gcount() > 0) {
    RETURN_IF_ERROR(
        spool.Append(std::string_view(part).substr(0, static_cast<std::size_t>(in.gcount()))));
  }
  return spool;
}

absl::StatusOr<v1::ImportHistoryResponse> ImportFrom(std::istream& in,
                                                     const v1::ImportHistoryRequest& request,
                                                     const GlobalFlags& flags) {
  if (!flags.server.empty()) {
    ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
    return client.ImportHistory(request, [&in] {
      std::string part(kPartBytes, '\0');
      in.read(part.data(), static_cast<std::streamsize>(part.size()));
      part.resize(static_cast<std::size_t>(in.gcount()));
      return part;
    });
  }
  ASSIGN_OR_RETURN(const ImportOptions import_options, ReadImportOptions(request));
  ASSIGN_OR_RETURN(Recorder store, OpenLocalWriter(flags.store, "meshwright history import"));
  if (!Rewind(in).ok()) {
    ASSIGN_OR_RETURN(Spool spool, SpoolOf(in));
    return ImportHistory(DirectAccess(store), spool.Lines(), import_options);
  }
  const LineSource lines = {.next = [&in]() -> absl::StatusOr<std::optional<std::string>> {
                              std::string line;
                              return std::getline(in, line) ? std::optional(std::move(line))
                                                            : std::nullopt;
                            },
                            .rewind = [&in] { return Rewind(in); }};
  return ImportHistory(DirectAccess(store), lines, import_options);
}

// Imports a training log as the report of its job. Its request id comes from what it says, so that
// a repeated import stores nothing.
int ImportLog(const HistoryOptions& options, const GlobalFlags& flags) {
  ReportFlags log = options.log;
  log.logged.log = options.file;
  Parsed<v1::CreateJobReportRequest> report = ReadReportFlags(log, flags.chips);
  report.message.set_request_id("import-" + Sha256Hex(PrintJson(report.message, {})).substr(0, 32));
  PrintNotes(report.notes);
  FieldNames names = NamesOf(log);
  names.insert(names.begin(),
               {{.field = "log", .flag = "file"}, {.field = "log_format", .flag = "--format"}});
  return Print(NamedAsStated(KeepReport(report, flags, "meshwright history import"), names),
               flags.output, ReportText);
}

int Import(const HistoryOptions& options, const GlobalFlags& flags) {
  if (!options.log.logged.log_format.empty()) return ImportLog(options, flags);
  v1::ImportHistoryRequest request;
  request.set_validate_only(options.validate_only);
  if (!options.conflict_policy.empty()) request.set_conflict_policy(options.conflict_policy);
  std::ifstream file;
  if (options.file != "-") {
    file.open(options.file, std::ios::binary);
    if (!file) {
      return Fail(
          InvalidFields({{.field = "file", .description = options.file + "; cannot be read"}}),
          flags.output);
    }
  }
  std::istream& in = options.file == "-" ? std::cin : file;
  return Print(NamedAsStated(ImportFrom(in, request, flags), NamesOf(options.rows)), flags.output,
               ImportText);
}

int Backup(const HistoryOptions& /*options*/, const GlobalFlags& flags) {
  const auto backup = [&]() -> absl::StatusOr<v1::BackupStoreResponse> {
    if (flags.server.empty()) {
      // A list of a missing store is empty, but a copy of one is a mistake.
      ASSIGN_OR_RETURN(Recorder store, Recorder::Open({.path = flags.store, .read_only = true}));
      return BackupStore(HistoryQueries(DirectAccess(store)), NowMs());
    }
    ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
    return client.BackupStore();
  };
  return Print(backup(), flags.output, BackupText);
}

// Adds the flags that say of which job a training log is. Returns that of its format.
CLI::Option* AddLogImportOptions(CLI::App& command, ReportFlags& flags) {
  CLI::Option* const format = command.add_option(
      "--format", flags.logged.log_format,
      fmt::format("the file is the log of a training job in one of these formats: {}; the median "
                  "of its steps becomes a job report",
                  fmt::join(LogFormats(), ", ")));
  AddQuestionOptions(command, flags.question);
  command.add_option("--plan", flags.plan,
                     "YAML or JSON file with the plan that ran, instead of that of --from");
  command
      .add_option("--warmup-steps", flags.logged.warmup_steps,
                  "steps of the log up to this number do not count, nor does its first line (5)")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--framework-version", flags.framework_version,
                     "framework version that the job ran, if it differs from the question's");
  command.add_option("--job", flags.job_name, "name of the job");
  command.add_option("--note", flags.note, "note to store with the report");
  for (const char* const name :
       {"--from", "--model", "--workload", "--sequence-length", "--global-batch-size", "--cluster",
        "--chip", "--nodes", "--devices-per-node", "--nic", "--framework", "--plan",
        "--warmup-steps", "--framework-version", "--job", "--note"}) {
    command.get_option(name)->needs(format)->group("The job of a training log");
  }
  return format;
}

using HistoryAction = int (*)(const HistoryOptions&, const GlobalFlags&);

}  // namespace

void AddHistoryCommand(CLI::App& app, Program& program) {
  CLI::App& group = *app.add_subcommand(
      "history", "read, export and import the studies, measurements and calibrations of the store");
  group.require_subcommand(1);
  auto options = std::make_shared<HistoryOptions>();
  const auto add = [&](const char* name, const char* help, HistoryAction action) -> CLI::App& {
    CLI::App& command = *group.add_subcommand(name, help);
    command.callback([action, options, &program] {
      program.writes_csv = action == List || action == Measurements;
      program.run = [action, options, &program] { return action(*options, program.flags); };
    });
    return command;
  };
  AddPageOptions(add("list", "list studies, newest first", List), options->rows);
  add("show", "show a study, a measurement or a calibration", Show)
      .add_option("id", options->id, "id of a study, measurement or calibration")
      ->required();
  CLI::App& rows =
      add("measurements", "list measurements of trials and jobs, newest first", Measurements);
  AddMeasurementOptions(rows, options->rows);
  rows.add_option("--source", options->source,
                  "only from this source: trial, job_report, import or replay");
  rows.add_option("--order", options->order, "newest (default) or fastest");
  CLI::App& retract =
      add("retract", "mark a measurement as wrong, so that later answers do not learn from it",
          Retract);
  retract.add_option("id", options->id, "id of the measurement")->required();
  retract.add_option("--reason", options->reason, "why it is wrong; it stands beside it in lists")
      ->required();
  CLI::App& learnt = add("calibrations",
                         "list calibrations of chips by measured runs, newest first", Calibrations);
  learnt.add_option("--chip", options->rows.chip, "only for this chip (its id)");
  AddPageOptions(learnt, options->rows);
  CLI::App& out =
      add("export", "write measurements and calibrations to stdout as JSON lines", Export);
  AddFilterOptions(out, options->rows);
  out.add_option("--source", options->source,
                 "only from this source: trial, job_report, import or replay");
  CLI::App& in =
      add("import", "check a whole export, then store what is new; can be repeated", Import);
  in.add_option("file", options->file,
                "output of `history export`, or with --format a training log; - is stdin")
      ->required();
  CLI::Option* const validates =
      in.add_flag("--validate-only", options->validate_only, "only report what would be stored");
  CLI::Option* const conflict =
      in.add_option("--conflict", options->conflict_policy,
                    "for a measurement that is stored with other content: fail (default), or keep "
                    "the stored one");
  AddLogImportOptions(in, options->log)->excludes(validates)->excludes(conflict);
  add("backup", "copy the store to a file beside it, even while a server uses it", Backup);
}

}  // namespace meshwright
