#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>

#include "cli/comparison.h"
#include "cli/exit_code.h"
#include "cli/input_files.h"
#include "cli/program.h"
#include "cli/terminal.h"
#include "proto/json.h"
#include "search_space/status.h"
#include "server/rpc/client.h"
#include "server/rpc/convert.h"

namespace meshwright {
namespace {

struct CompareOptions {
  std::string first = {};
  std::string second = {};
  std::string history = {};  // empty: none
};

// One of the two cases, with its name in front of every wrong field.
struct NamedCase {
  std::string name = {};
  v1::EvaluateCase asked = {};
  EvaluateRequest request = {};
};

absl::StatusOr<NamedCase> ReadCase(const std::string& name, const std::string& path,
                                   const Knowledge& knowledge) {
  const auto text = ReadTextFile(path);
  if (!text.ok()) {
    return InvalidFields({{.field = name, .description = std::string(text.status().message())}});
  }
  const Parsed<v1::EvaluateCase> asked = ParseCase(*text);
  absl::StatusOr<EvaluateRequest> request = CheckCase(asked, knowledge);
  if (request.ok()) {
    return NamedCase{.name = name, .asked = asked.message, .request = *std::move(request)};
  }
  std::vector<FieldViolation> violations = FieldViolations(request.status());
  if (violations.empty()) return request.status();
  for (FieldViolation& violation : violations) violation.field = name + "." + violation.field;
  return InvalidFields(violations);
}

absl::StatusOr<v1::PlanComparison> CompareEmbedded(const NamedCase& first, const NamedCase& second,
                                                   const CompareOptions& options,
                                                   const Knowledge& knowledge) {
  std::vector<HistoryRow> history;
  if (!options.history.empty()) {
    Parsed<v1::EvaluatePlansRequest> file = ReadHistoryFile(options.history);
    ASSIGN_OR_RETURN(history, HistoryFromWire(file.message, knowledge, std::move(file.violations)));
  }
  ASSIGN_OR_RETURN(const Estimate one, EvaluatePlan(first.request, knowledge, history));
  ASSIGN_OR_RETURN(const Estimate other, EvaluatePlan(second.request, knowledge, history));
  return CompareEstimates(ToWire(one), ToWire(other));
}

absl::StatusOr<v1::PlanComparison> CompareServed(const NamedCase& first, const NamedCase& second,
                                                 const CompareOptions& options,
                                                 const std::string& server) {
  v1::EvaluatePlansRequest request;
  if (!options.history.empty()) request = ReadHistoryFile(options.history).message;
  *request.add_cases() = first.asked;
  *request.add_cases() = second.asked;
  for (v1::EvaluateCase& asked : *request.mutable_cases()) asked.clear_id();
  ASSIGN_OR_RETURN(Client client, Client::Connect(server));
  ASSIGN_OR_RETURN(const v1::EvaluatePlansResponse response, client.EvaluatePlans(request));
  for (int i = 0; i < 2; ++i) {
    if (response.answers(i).has_estimate()) continue;
    const v1::CaseError& error = response.answers(i).failed().error();
    return WithReason(
        absl::InvalidArgumentError((i == 0 ? first : second).name + ": " + error.message()),
        error.reason());
  }
  return CompareEstimates(response.answers(0).estimate(), response.answers(1).estimate());
}

absl::StatusOr<v1::PlanComparison> Compare(const CompareOptions& options,
                                           const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  const absl::StatusOr<NamedCase> first = ReadCase("first", options.first, knowledge);
  const absl::StatusOr<NamedCase> second = ReadCase("second", options.second, knowledge);
  if (!first.ok() || !second.ok()) {
    std::vector<FieldViolation> violations = FieldViolations(first.status());
    for (FieldViolation& violation : FieldViolations(second.status())) {
      violations.push_back(std::move(violation));
    }
    if (!violations.empty()) return InvalidFields(violations);
    return first.ok() ? second.status() : first.status();
  }
  return flags.server.empty() ? CompareEmbedded(*first, *second, options, knowledge)
                              : CompareServed(*first, *second, options, flags.server);
}

int RunCompare(const CompareOptions& options, const GlobalFlags& flags) {
  const auto comparison = Compare(options, flags);
  if (!comparison.ok()) return Fail(comparison.status(), flags.output);
  PrintData(flags.output == OutputForm::kTable
                ? ComparisonReport(*comparison)
                : PrintJson(*comparison, {.multiline = true}) + "\n");
  return kExitDone;
}

}  // namespace

void AddCompareCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App& command = *app.add_subcommand("compare", "two plans term by term: time and memory");
  command.add_option("first", options->first, "one case of `evaluate`; - is stdin")->required();
  command.add_option("second", options->second, "another")->required();
  command.add_option("--history", options->history, "JSON lines: measured results of earlier runs");
  command.callback([options, &program] {
    program.run = [options, &program] { return RunCompare(*options, program.flags); };
  });
}

}  // namespace meshwright
