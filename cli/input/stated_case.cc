#include "cli/input/stated_case.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/program/terminal.h"
#include "search_space/base/status.h"
#include "search_space/import/hugging_face.h"
#include "server/tuner/question/question_resolver.h"

namespace meshwright {
namespace {

// The plan is read as the baseline of a question, so its mistakes are that one's.
void NameThePlan(std::vector<FieldViolation>& violations) {
  constexpr std::string_view kRead = "baseline";
  for (FieldViolation& violation : violations) {
    if (violation.field.starts_with(kRead)) violation.field.replace(0, kRead.size(), "plan");
  }
}

// Returns true for a file that has other keys instead of a question and its plan.
bool IsOnlyAPlan(const Parsed<v1::EvaluateCase>& asked) {
  const v1::EvaluateCase& stated = asked.message;
  const bool is_case =
      stated.has_model() || stated.has_workload() || stated.has_cluster() || stated.has_plan();
  return !is_case && !asked.violations.empty();
}

}  // namespace

CLI::Option* AddCaseOptions(CLI::App& command, CaseFlags& flags) {
  CLI::Option* const plan = command.add_option(
      "--plan", flags.plan,
      "a case (model, workload, cluster and plan), as YAML or JSON; or, beside --model or --from, "
      "only the plan, as a plan of Meshwright or as a file for --from; - is stdin");
  AddQuestionOptions(command, flags.question);
  AllowVariablesOfOtherScript(command);
  return plan;
}

void ExcludeCase(CLI::App& command, CLI::Option& other) {
  for (const char* const name :
       {"--plan", "--from", "--set", "--model", "--workload", "--sequence-length",
        "--global-batch-size", "--cluster", "--chip", "--nodes", "--devices-per-node", "--nic"}) {
    other.excludes(command.get_option(name));
  }
}

bool HasQuestion(const CaseFlags& flags) {
  QuestionFlags question = flags.question;
  question.framework.clear();  // of a whole case it is another one's (`export`)
  question.framework_version.clear();
  question.from.variables.clear();  // those of the plan's script
  return question != QuestionFlags();
}

void RequireCase(const CaseFlags& flags) {
  if (!HasQuestion(flags)) {
    if (flags.plan.empty()) throw CLI::RequiredError("--plan");
    if (!flags.question.from.variables.empty()) {
      throw CLI::RequiresError("--set", "--from, or --plan with --model");
    }
    return;
  }
  RequireQuestion(flags.question, {.flag = "--plan", .path = flags.plan});
  const ClusterFlags& cluster = flags.question.cluster;
  if (cluster.source.empty() && (cluster.chip.empty() || !cluster.node_count.has_value())) {
    throw CLI::RequiredError("--cluster, or --chip with --nodes,");
  }
  if (flags.question.from.path.empty() && flags.plan.empty()) throw CLI::RequiredError("--plan");
}

Parsed<v1::EvaluateCase> ReadStatedCase(const CaseFlags& flags, std::string_view site_chips) {
  Parsed<v1::TuneRequest> asked =
      ReadTuneRequest({.question = flags.question, .baseline = flags.plan}, site_chips);
  v1::TuneRequest& request = asked.message;
  if (request.has_hugging_face_config_json()) {  // only configs that cannot be imported
    const absl::Status model =
        ImportHuggingFaceConfig(request.hugging_face_config_json(), "model").status();
    for (FieldViolation& violation : FieldViolations(model)) {
      asked.violations.push_back(std::move(violation));
    }
  }
  NameThePlan(asked.violations);
  Parsed<v1::EvaluateCase> out = {.violations = std::move(asked.violations),
                                  .notes = std::move(asked.notes)};
  const std::string& path = flags.plan.empty() ? flags.question.from.path : flags.plan;
  out.message.set_id(std::filesystem::path(path).filename().string());
  if (request.has_model()) out.message.mutable_model()->Swap(request.mutable_model());
  out.message.mutable_workload()->Swap(request.mutable_workload());
  out.message.mutable_cluster()->Swap(request.mutable_cluster());
  out.message.mutable_plan()->Swap(request.mutable_baseline());
  return out;
}

Parsed<v1::EvaluateCase> ReadCase(const CaseFlags& flags, std::string_view site_chips) {
  if (HasQuestion(flags)) {
    Parsed<v1::EvaluateCase> asked = ReadStatedCase(flags, site_chips);
    PrintNotes(asked.notes);
    return asked;
  }
  auto asked = ParseCaseFile(flags.plan);
  if (!asked.ok()) return {.violations = FieldViolations(asked.status()), .is_json_object = false};
  if (IsOnlyAPlan(*asked)) {
    asked->violations = {
        {.field = "question",
         .description = "missing; the file has only a plan; state a model, workload and cluster by "
                        "flags, or write model, workload, cluster and plan into the file"}};
    asked->is_json_object = false;
  }
  return *std::move(asked);
}

absl::StatusOr<ResolvedCase> ResolveStatedCase(const CaseFlags& flags, const Knowledge& knowledge,
                                               std::string_view site_chips) {
  QuestionResolver resolver(knowledge);
  return CheckCase(ReadCase(flags, site_chips), resolver);
}

}  // namespace meshwright
