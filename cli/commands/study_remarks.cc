#include "cli/commands/study_remarks.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "cli/local/local_store.h"
#include "cli/program/exit_code.h"
#include "cli/program/terminal.h"
#include "cli/reports/print_answer.h"
#include "cli/reports/study_difference.h"
#include "cli/reports/study_table.h"
#include "cli/source/connection.h"
#include "cli/source/stored_study.h"
#include "search_space/base/status.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"

namespace meshwright {
namespace {

struct UpdateOptions {
  std::string id = {};
  std::optional<std::string> display_name = {};
  std::optional<std::string> note = {};
  std::vector<std::string> labels = {};
  std::vector<std::string> removed_labels = {};
};

struct DiffOptions {
  std::string first = {};
  std::string second = {};
};

template <typename Labels>
absl::Status AddLabels(const std::vector<std::string>& texts, Labels& labels) {
  for (const std::string& text : texts) {
    const std::size_t at = text.find('=');
    if (at == std::string::npos) {
      return InvalidFields(
          {{.field = "--label", .description = fmt::format("\"{}\"; must be key=value", text)}});
    }
    labels[text.substr(0, at)] = text.substr(at + 1);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::UpdateStudyRequest> RequestOf(const UpdateOptions& options) {
  v1::UpdateStudyRequest request;
  request.set_study_id(options.id);
  if (options.display_name.has_value()) request.set_display_name(*options.display_name);
  if (options.note.has_value()) request.set_note(*options.note);
  RETURN_IF_ERROR(AddLabels(options.labels, *request.mutable_labels()));
  for (const std::string& key : options.removed_labels) request.add_removed_labels(key);
  return request;
}

// Returns how the flags name the fields of a request.
FieldNames NamesOfUpdate() {
  return {{.field = "display_name", .flag = "--name"},
          {.field = "note", .flag = "--note"},
          {.field = "labels", .flag = "--label"},
          {.field = "removed_labels", .flag = "--remove-label"}};
}

absl::StatusOr<v1::Study> UpdateStudy(const UpdateOptions& options, const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const v1::UpdateStudyRequest request, RequestOf(options));
  if (flags.server.empty()) return UpdateLocalStudy(flags.store, request);
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  ASSIGN_OR_RETURN(v1::UpdateStudyResponse response, client.UpdateStudy(request));
  return std::move(*response.mutable_study());
}

int Update(const UpdateOptions& options, const GlobalFlags& flags) {
  const auto study = NamedAsStated(UpdateStudy(options, flags), NamesOfUpdate());
  if (!study.ok()) return Fail(study.status(), flags.output);
  if (flags.output == OutputForm::kJson) {
    PrintJsonAnswer(*study);
    return kExitDone;
  }
  v1::ListStudiesResponse studies;
  *studies.add_studies() = *study;
  PrintData(StudyTable(ForTerminal(studies), StdoutColumns()));
  return kExitDone;
}

int Diff(const DiffOptions& options, const GlobalFlags& flags) {
  const auto first = GetStudy(options.first, flags);
  if (!first.ok()) return Fail(first.status(), flags.output);
  const auto second = GetStudy(options.second, flags);
  if (!second.ok()) return Fail(second.status(), flags.output);
  const v1::StudyDifference difference = CompareStudies(*first, *second);
  if (flags.output == OutputForm::kJson) {
    PrintJsonAnswer(difference);
  } else {
    PrintData(StudyDifferenceReport(ForTerminal(difference), StdoutColumns()));
  }
  return kExitDone;
}

}  // namespace

FieldNames NamesOfStudyFilter() {
  return {{.field = "filter.state", .flag = "--state"},
          {.field = "filter.outcome", .flag = "--outcome"},
          {.field = "filter.text", .flag = "--text"},
          {.field = "filter.chip", .flag = "--chip"},
          {.field = "filter.creator", .flag = "--creator"},
          {.field = "filter.labels", .flag = "--label"},
          {.field = "filter.created_from", .flag = "--since"},
          {.field = "filter.created_before", .flag = "--until"},
          {.field = "page_size", .flag = "--page-size"},
          {.field = "page_token", .flag = "--page-token"}};
}

void AddStudyFilterOptions(CLI::App& command, StudyFilterFlags& flags) {
  command.add_option("--state", flags.state, "only studies in this state");
  command.add_option("--outcome", flags.outcome, "only studies that ended like this");
  command.add_option("--text", flags.text,
                     "only studies with this in their id, name, model or cluster");
  command.add_option("--chip", flags.chip, "only studies with this chip in a pool (its id)");
  command.add_option("--creator", flags.creator,
                     "only studies that this caller created; \"\": nobody known");
  command.add_option("--label", flags.labels, "only studies with this label: key=value");
  command.add_option("--since", flags.since, "only studies created at this time or date or later");
  command.add_option("--until", flags.until, "only studies created before this time or date");
}

absl::StatusOr<v1::StudyFilter> FilterOf(const StudyFilterFlags& flags) {
  v1::StudyFilter filter;
  if (!flags.state.empty()) filter.set_state(flags.state);
  if (!flags.outcome.empty()) filter.set_outcome(flags.outcome);
  if (!flags.text.empty()) filter.set_text(flags.text);
  if (!flags.chip.empty()) filter.set_chip(flags.chip);
  if (flags.creator.has_value()) filter.set_creator(*flags.creator);
  if (!flags.since.empty()) filter.set_created_from(flags.since);
  if (!flags.until.empty()) filter.set_created_before(flags.until);
  RETURN_IF_ERROR(AddLabels(flags.labels, *filter.mutable_labels()));
  return filter;
}

void AddReviewCommands(CLI::App& group, Program& program) {
  const auto options = std::make_shared<UpdateOptions>();
  CLI::App& update = *group.add_subcommand("update", "name, note or label a study");
  update.add_option("id", options->id, "id of the study")->required();
  update.add_option("--name", options->display_name, "name to show beside the id; empty: none");
  update.add_option("--note", options->note, "text for other readers; empty: none");
  update.add_option("--label", options->labels, "set a label: key=value; may be repeated");
  update.add_option("--remove-label", options->removed_labels, "remove the label with this key");
  update.callback([options, &program] {
    program.run = [options, &program] { return Update(*options, program.flags); };
  });
  const auto pair = std::make_shared<DiffOptions>();
  CLI::App& diff =
      *group.add_subcommand("diff", "show how two studies differ in question and answer");
  diff.add_option("first", pair->first, "id of a study")->required();
  diff.add_option("second", pair->second, "id of another study")->required();
  diff.callback(
      [pair, &program] { program.run = [pair, &program] { return Diff(*pair, program.flags); }; });
}

}  // namespace meshwright
