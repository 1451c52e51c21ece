#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/input/input_files.h"
#include "cli/input/json_member.h"
#include "cli/input/json_text.h"
#include "cli/input/question_flags.h"
#include "cli/input/read_file.h"
#include "cli/input/stated_case.h"
#include "cli/local/local_store.h"
#include "cli/program/field_names.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/comparison.h"
#include "cli/reports/print_answer.h"
#include "cli/source/connection.h"
#include "estimator/learning/uncertainty.h"
#include "meshwright/v1/estimate.pb.h"
#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"
#include "server/convert/question_answers.h"
#include "server/rpc/client/client.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

struct CompareOptions {
  std::string first = {};
  std::string second = {};
  std::string history = {};     // empty: none
  QuestionFlags question = {};  // for files that are launch scripts or plans
};

// A case as a file states it. `name` stands before every wrong field of the case.
struct NamedCase {
  std::string name = {};
  Parsed<v1::EvaluateCase> asked = {};
};

// Returns true if a file in our keys is only a plan: it has no other part of a case.
bool IsPlan(std::string_view json) {
  return std::ranges::none_of(
      std::array{"model", "workload", "cluster", "plan"},
      [&](const char* part) { return FindJsonMember(json, part).has_value(); });
}

// Reads a case, a launch script, or a plan for the question that is stated by flags.
NamedCase ReadNamedCase(const std::string& name, const std::string& path,
                        const QuestionFlags& question, std::string_view site_chips) {
  NamedCase named = {.name = name};
  const auto text = ReadTextFile(path);
  if (!text.ok()) {
    named.asked.is_json_object = false;
    named.asked.violations = {{.field = "", .description = std::string(text.status().message())}};
    return named;
  }
  auto own = OwnJson(*text, path, *v1::EvaluateCase::descriptor());
  if (!own.has_value()) own = OwnJson(*text, path, *v1::Plan::descriptor());
  if (path == "-" && !own.has_value()) own = *text;
  const bool is_plan = own.has_value() && !question.model.empty() && IsPlan(*own);
  if (own.has_value() && !is_plan) {
    named.asked = ParseCase(*own);
    return named;
  }
  CaseFlags flags = {.question = question};
  (is_plan ? flags.plan : flags.question.from.path) = path;
  named.asked = ReadStatedCase(flags, site_chips);
  PrintNotes(named.asked.notes);
  return named;
}

// Both estimates, each with the reason if there is none.
struct Answers {
  std::array<absl::StatusOr<v1::Estimate>, 2> estimates;
  v1::ComparedPair pair = {};  // if there are both estimates
};

absl::StatusOr<CalibratedEstimate> EvaluateHere(const Parsed<v1::EvaluateCase>& asked,
                                                QuestionResolver& resolver,
                                                Calibrator& calibrator) {
  ASSIGN_OR_RETURN(const ResolvedCase resolved, CheckCase(asked, resolver));
  return EvaluatePlan(resolved, calibrator);
}

Answers AnswerHere(const std::array<NamedCase, 2>& cases, QuestionResolver& resolver,
                   Calibrator& calibrator) {
  const auto first = EvaluateHere(cases[0].asked, resolver, calibrator);
  const auto second = EvaluateHere(cases[1].asked, resolver, calibrator);
  Answers answers;
  const auto fill = [&](std::size_t i, const absl::StatusOr<CalibratedEstimate>& evaluated) {
    if (evaluated.ok()) {
      answers.estimates[i] = ToWire(*evaluated);
    } else {
      answers.estimates[i] = evaluated.status();
    }
  };
  fill(0, first);
  fill(1, second);
  if (first.ok() && second.ok()) {
    answers.pair.set_faster_probability_ratio(
        FasterProbability(first->estimate.step_time, first->uncertainty, second->estimate.step_time,
                          second->uncertainty));
    const RatioBounds ratio = StepTimeRatio(first->estimate.step_time, first->uncertainty,
                                            second->estimate.step_time, second->uncertainty);
    answers.pair.set_step_time_ratio_low(ratio.low);
    answers.pair.set_step_time_ratio_high(ratio.high);
  }
  return answers;
}

// Asks a server for both estimates. A case whose JSON is wrong is answered here, because it cannot
// be sent.
absl::StatusOr<Answers> AskServer(const GlobalFlags& flags, QuestionResolver& resolver,
                                  v1::EvaluatePlansRequest request,
                                  const std::array<NamedCase, 2>& cases) {
  Answers answers;
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Parsed<v1::EvaluateCase>& stated = cases[i].asked;
    if (!stated.violations.empty()) {
      answers.estimates[i] = CheckCase(stated, resolver).status();
      continue;
    }
    asked.push_back(i);
    *request.add_cases() = stated.message;
    request.mutable_cases()->rbegin()->set_id(cases[i].name);  // both files may state the same id
  }
  if (asked.empty()) return answers;
  if (asked.size() == cases.size()) {
    v1::CasePair& pair = *request.add_pairs();
    pair.set_a(cases[0].name);
    pair.set_b(cases[1].name);
  }
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  ASSIGN_OR_RETURN(const v1::EvaluatePlansResponse response, client.EvaluatePlans(request));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const v1::EvaluateAnswer& answer = response.answers(static_cast<int>(i));
    if (answer.has_estimate()) {
      answers.estimates[asked[i]] = answer.estimate();
      answers.estimates[asked[i]]->clear_id();
    } else {
      answers.estimates[asked[i]] = FromCaseError(answer.failed().error());
    }
  }
  for (const v1::ComparedPair& pair : response.pairs()) answers.pair = pair;
  return answers;
}

// Returns the mistakes of both cases in one list. A mistake that names no field stands for itself.
absl::Status Mistakes(const std::array<NamedCase, 2>& cases, const Answers& answers) {
  const auto& [first, second] = answers.estimates;
  std::vector<FieldViolation> violations;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (FieldViolation& violation : FieldViolations(answers.estimates[i].status())) {
      violation.field = cases[i].name + (violation.field.empty() ? "" : ".") + violation.field;
      violations.push_back(std::move(violation));
    }
  }
  if (!violations.empty()) {
    const bool is_one = first.ok() || second.ok();
    return is_one ? WithReason(InvalidFields(violations),
                               Reason(first.ok() ? second.status() : first.status()))
                  : InvalidFields(violations);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const absl::Status& status = answers.estimates[i].status();
    if (status.ok()) continue;
    return WithReason(
        absl::Status(status.code(), cases[i].name + ": " + std::string(status.message())),
        Reason(status));
  }
  return absl::OkStatus();
}

// Refuses to read both cases from stdin, which can be read only once.
absl::Status CheckStdin(const CompareOptions& options) {
  std::string_view reader;
  for (const auto& [name, path] :
       {std::pair<std::string_view, std::string_view>{"first", options.first},
        {"second", options.second},
        {"history", options.history}}) {
    if (path != "-") continue;
    if (!reader.empty()) {
      return InvalidFields(
          {{.field = std::string(name),
            .description = fmt::format("-; only one input can be stdin, and {} is", reader)}});
    }
    reader = name;
  }
  return absl::OkStatus();
}

// Returns the id of a case's plan.
absl::StatusOr<std::string> DigestOf(const NamedCase& named, QuestionResolver& resolver) {
  ASSIGN_OR_RETURN(const ResolvedCase resolved, CheckCase(named.asked, resolver));
  return MakePlanKey(resolved.plan.plan).digest;
}

absl::StatusOr<v1::PlanComparison> Compare(const CompareOptions& options,
                                           const GlobalFlags& flags) {
  RETURN_IF_ERROR(CheckStdin(options));
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  QuestionResolver resolver(knowledge);
  const std::array cases = {ReadNamedCase("first", options.first, options.question, flags.chips),
                            ReadNamedCase("second", options.second, options.question, flags.chips)};
  ASSIGN_OR_RETURN(const History history, ReadHistory(options.history, knowledge));
  Answers answers;
  if (flags.server.empty()) {
    ASSIGN_OR_RETURN(const HistorySource source,
                     LocalHistory(flags.store, knowledge, std::nullopt));
    Calibrator calibrator(history.rows, knowledge, source);
    answers = AnswerHere(cases, resolver, calibrator);
  } else {
    ASSIGN_OR_RETURN(answers, AskServer(flags, resolver, history.stated, cases));
  }
  RETURN_IF_ERROR(Mistakes(cases, answers));
  v1::PlanComparison comparison = CompareEstimates(*answers.estimates[0], *answers.estimates[1]);
  AddCertainty(answers.pair, comparison);
  ASSIGN_OR_RETURN(const std::string first, DigestOf(cases[0], resolver));
  ASSIGN_OR_RETURN(const std::string second, DigestOf(cases[1], resolver));
  comparison.set_first_plan_digest(first);
  comparison.set_second_plan_digest(second);
  return comparison;
}

int RunCompare(const CompareOptions& options, const GlobalFlags& flags) {
  const FieldNames names = {{.field = "first", .flag = "first", .file = options.first},
                            {.field = "second", .flag = "second", .file = options.second},
                            {.field = "history", .flag = "--history", .file = options.history}};
  return Print(NamedAsStated(Compare(options, flags), names), flags.output, ComparisonReport);
}

}  // namespace

void AddCompareCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App& command =
      *app.add_subcommand("compare", "compare two plans term by term, in time and memory");
  command
      .add_option(
          "first", options->first,
          "a case as for `evaluate`, as YAML or JSON; a launch script with --cluster; or, with "
          "--model, a plan for that question; - is stdin")
      ->required();
  command.add_option("second", options->second, "another one")->required();
  command.add_option("--history", options->history,
                     "JSON lines with measured results of earlier runs");
  AddQuestionOptions(command, options->question);
  for (const char* const name : {"--from", "--set"}) {
    command.remove_option(command.get_option(name));  // the script is an argument
  }
  command
      .add_option("--set", options->question.from.variables,
                  "set a variable of the scripts, as in NNODES=16")
      ->group("Question")
      ->take_all();
  command.callback([options, &program] {
    program.run = [options, &program] { return RunCompare(*options, program.flags); };
  });
}

}  // namespace meshwright
