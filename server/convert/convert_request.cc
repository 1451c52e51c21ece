#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "proto/json/text_fields.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/import/hugging_face.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/run_limits.h"
#include "search_space/spec/workload.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/training_run.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/search/study_check.h"

namespace meshwright {
namespace {

// Returns true if `listed` contains a message that holds the field.
bool IsInside(const std::string& field, const std::set<std::string>& listed) {
  if (!field.empty() && listed.contains("")) return true;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const bool ends_name = field[i] == '.' || field[i] == '[';
    if (ends_name && listed.contains(field.substr(0, i))) return true;
  }
  return false;
}

// Reads a part that every request must have. If it is absent, returns nullopt and adds a mistake.
template <typename Part>
std::optional<Part> ReadPart(const MessageReader& in, std::string_view field,
                             Part (*read)(const MessageReader&)) {
  const std::optional<MessageReader> child = in.Child(field);
  if (child.has_value()) return read(*child);
  // If the field could not be read, its mistake has been added already.
  if (!in.HasMistakes(field)) in.Add(field, "missing; required");
  return std::nullopt;
}

PlanRequest ReadValidPlan(const MessageReader& in) {
  PlanRequest plan = ReadPlan(in);
  for (FieldViolation& violation : Validate(plan, "")) {
    in.Add(violation.field, std::move(violation.description));
  }
  return plan;
}

// `model` is nullopt if it could not be read, and its mistake has been added by then.
Question QuestionAbout(const MessageReader& in, std::optional<ModelSpec> model) {
  Question question;
  if (model.has_value()) question.model = *std::move(model);
  question.workload = ReadPart(in, "workload", ReadWorkload).value_or(WorkloadRequest());
  question.cluster = ReadPart(in, "cluster", ReadCluster).value_or(ClusterRequest());
  return question;
}

// Resolves the question too.
Question ReadQuestion(const MessageReader& in, std::optional<ModelSpec> model,
                      QuestionResolver& resolver) {
  const bool has_model = model.has_value();
  Question question = QuestionAbout(in, std::move(model));
  for (FieldViolation& violation : FieldViolations(resolver.Resolve(question).status())) {
    if (!has_model && violation.field.starts_with("model")) continue;
    in.Add(violation.field, std::move(violation.description));
  }
  return question;
}

absl::StatusOr<ImportedModel> ImportModel(const MessageReader& in, const std::string& config) {
  absl::StatusOr<ImportedModel> model = ImportHuggingFaceConfig(config, "model");
  for (const FieldViolation& violation : FieldViolations(model.status())) {
    in.Add(violation.field, violation.description);
  }
  return model;
}

// Reads the model in either form. Any error has been added to the mistakes, also one that is
// returned as the status.
absl::StatusOr<ImportedModel> ReadModelOrConfig(const MessageReader& in) {
  const std::optional<std::string> config = in.Text("hugging_face_config_json");
  if (config.has_value() && !in.Child("model").has_value()) return ImportModel(in, *config);
  if (config.has_value()) {
    in.Add("hugging_face_config_json", "stated beside model; must be one of the two");
  }
  std::optional<ModelSpec> model = ReadPart(in, "model", ReadModel);
  if (model.has_value()) return ImportedModel{.model = *std::move(model)};
  return absl::InvalidArgumentError("model is missing");
}

std::string Listed(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// Reads and checks the limits of the search.
void ReadSearch(const MessageReader& in, StudyRequest& request) {
  const StudyRequest defaults;
  request.plan_count = in.Int("plan_count").value_or(defaults.plan_count);
  if (const std::optional<double> deadline = in.Double("deadline_seconds")) {
    request.deadline = Seconds(*deadline);
  }
  request.choice = {
      .min_fit_probability =
          in.Double("min_fit_probability_ratio").value_or(defaults.choice.min_fit_probability),
      .tie_probability =
          in.Double("tie_probability_ratio").value_or(defaults.choice.tie_probability)};
  request.disabled_rules = in.Texts("disabled_rules");
  request.strategy = in.Text("strategy").value_or(defaults.strategy);
  request.evaluation_limit = in.Int("evaluation_limit");
  request.pareto = in.Bool("pareto").value_or(false);
  request.mix_margin = in.Double("mix_margin_ratio").value_or(defaults.mix_margin);
  request.cost_model = ReadCostModelRequest(in);
  for (const MessageReader& dimension : in.Children("dimensions")) {
    request.dimensions.push_back({.name = dimension.Required("name", dimension.Text("name")),
                                  .values = dimension.Texts("values"),
                                  .at_least = dimension.Int("at_least"),
                                  .at_most = dimension.Int("at_most")});
  }
  for (FieldViolation& found : Validate(request)) in.Add(found.field, std::move(found.description));
}

// Reads the training run, and the ids of the chips that it names.
void ReadRun(const MessageReader& in, const Knowledge& knowledge, StudyRequest& request) {
  const std::optional<MessageReader> stated = in.Child("run");
  if (!stated.has_value()) return;
  TrainingRun& run = request.run.emplace();
  run.token_count = stated->Required("token_count", stated->Double("token_count"));
  run.max_days = stated->Double("max_days");
  for (const MessageReader& price : stated->Children("device_hour_prices")) {
    DeviceHourPrice& added = run.device_hour_prices.emplace_back();
    added.price = price.Required("price", price.Double("price"));
    const std::optional<std::string> chip = price.Text("chip");
    if (!chip.has_value()) continue;
    const auto entry = knowledge.chips.Find(*chip);
    if (entry.ok()) {
      added.chip = (*entry)->spec.id;
    } else {
      price.Add("chip", ChipMistake(entry.status()));
    }
  }
  for (FieldViolation& found : Validate(run)) {
    if (stated->HasMistakes(found.field)) continue;
    stated->Add(found.field, std::move(found.description));
  }
}

// Choosing a trial compares every plan with every earlier trial. Replays within these limits take
// half a minute at most.
constexpr std::size_t kMaxReplayRows = 20'000;
constexpr std::size_t kMaxReplayLikenesses = 2'000'000'000;  // rows x trials x trials

// Reads what was measured. A run that did not end well may give 0 for what it could not measure.
template <typename Row>
void ReadMeasured(const MessageReader& in, Row& row) {
  const bool is_ok = row.outcome == Outcome::kOk;
  const std::optional<double> step_time = in.Double("step_time_seconds");
  if (step_time.has_value() && (is_ok || *step_time != 0)) {
    row.step_time = Seconds(*step_time);
    if (auto mistake = StepTimeMistake(*row.step_time, Seconds(0))) {
      in.Add("step_time_seconds", *std::move(mistake));
    }
  }
  if (is_ok && !step_time.has_value()) {
    in.Add("step_time_seconds", "missing; required if outcome is ok");
  }
  const std::optional<std::int64_t> peak = in.Int64("peak_memory_bytes");
  if (peak.has_value() && (is_ok || *peak != 0)) {
    row.peak_memory = Bytes{*peak};
    if (auto mistake = PeakMemoryMistake(*row.peak_memory)) {
      in.Add("peak_memory_bytes", *std::move(mistake));
    }
  }
}

// Resolves the row, and adds a mistake if it cannot have run as stated: its own question does not
// allow the plan, or the step is shorter than its devices allow. A replay may stand in for any
// cluster, so its steps are not compared with the devices.
void CheckRan(const MessageReader& in, QuestionResolver& resolver, HistoryRow& row) {
  const auto problem = resolver.Resolve(row.question);
  if (!problem.ok()) return;  // ReadQuestion has reported it
  if (row.outcome == Outcome::kOk && row.step_time.has_value()) {
    if (auto mistake = StepTimeMistake(*row.step_time, LeastStep(**problem))) {
      in.Add("step_time_seconds", *std::move(mistake));
    }
  }
  absl::StatusOr<ResolvedPlan> plan = ResolvePlan(row.plan, **problem, "plan");
  if (plan.ok()) {
    row.resolved =
        ResolvedJob{.problem = ProblemOfPlan(*problem, plan->plan), .plan = std::move(plan->plan)};
    return;
  }
  for (FieldViolation& violation : FieldViolations(plan.status())) {
    in.Add(violation.field, std::move(violation.description));
  }
}

// ResolveStudy checks if the plans are legal for the question.
std::vector<MeasuredPlan> ReadReplay(const MessageReader& in) {
  std::vector<MeasuredPlan> rows;
  const std::vector<MessageReader> children = in.Children("replay");
  if (children.size() > kMaxReplayRows) {
    in.Add("replay", fmt::format("{} rows; must be <= {}", children.size(), kMaxReplayRows));
    return rows;
  }
  for (const MessageReader& row : children) {
    MeasuredPlan& measured = rows.emplace_back();
    measured.plan = ReadPart(row, "plan", ReadValidPlan).value_or(PlanRequest());
    measured.outcome = row.Required("outcome", row.Choice<Outcome>("outcome"));
    if (measured.outcome == Outcome::kCancelled) {
      row.Add("outcome",
              "cancelled; a cancelled run proves nothing about its plan: leave the row out");
    }
    ReadMeasured(row, measured);
  }
  return rows;
}

void ReadTrialBudget(const MessageReader& in, TrialBudget& budget) {
  budget.trials = in.RequiredInt("max_trials");
  if (in.Int("max_trials").has_value()) in.RequirePositive("max_trials", budget.trials);
  const auto read = [&](std::string_view field, std::optional<Seconds>& limit) {
    const std::optional<double> value = in.Double(field);
    if (!value.has_value()) return;
    limit = Seconds(*value);
    in.RequirePositive(field, *value);
  };
  read("max_device_seconds", budget.device_time);
  read("max_seconds", budget.time);
  budget.stop_within = in.Double("stop_within_ratio");
  const double ratio = budget.stop_within.value_or(0);
  if (!(ratio >= 0 && ratio < 1)) {
    in.Add("stop_within_ratio", fmt::format("{}; must be at least 0 and below 1", ratio));
  }
}

void ReadRepeats(const MessageReader& in, TrialRequest& trials) {
  const std::optional<int> confirmed = in.Int("confirm_plans");
  trials.repeats = {.interleaves_baseline = in.Bool("interleave_baseline").value_or(false),
                    .confirmed_plans = confirmed.value_or(0)};
  if (confirmed.has_value()) in.RequirePositive("confirm_plans", *confirmed);
  const auto refuse = [&](std::string_view field, bool is_stated) {
    if (!is_stated || RunsJobs(trials.launcher)) return;
    in.Add(field, fmt::format("stated; must be absent: launcher {} has only one time for a plan",
                              trials.launcher));
  };
  refuse("interleave_baseline", trials.repeats.interleaves_baseline);
  refuse("confirm_plans", confirmed.has_value());
}

// Refuses the search options, because a replay does not search.
void RefuseSearch(const MessageReader& in, const StudyRequest& request) {
  const auto refuse = [&](std::string_view field, bool is_stated) {
    if (!is_stated) return;
    in.Add(field,
           fmt::format("stated; must be absent: launcher {} only tries the plans of its rows",
                       request.trials->launcher));
  };
  refuse("strategy", request.strategy != StudyRequest().strategy);
  refuse("evaluation_limit", request.evaluation_limit.has_value());
  refuse("dimensions", !request.dimensions.empty());
  refuse("disabled_rules", !request.disabled_rules.empty());
}

void ReadTrials(const MessageReader& in, StudyRequest& request) {
  const std::optional<MessageReader> stated = in.Child("trials");
  if (!stated.has_value()) return;
  TrialRequest& trials = request.trials.emplace();
  trials.launcher = stated->Required("launcher", stated->Text("launcher"));
  if (stated->Text("launcher").has_value() && FindLauncher(trials.launcher) == nullptr) {
    stated->AddWordMistake("launcher", trials.launcher, Listed(LauncherNames()));
  }
  trials.replay = ReadReplay(*stated);
  if (!RunsJobs(trials.launcher)) {
    if (trials.replay.empty() && !stated->HasMistakes("replay")) {
      stated->Add("replay", fmt::format("missing; launcher {} needs at least one measured plan",
                                        trials.launcher));
    }
    RefuseSearch(in, request);
  }
  if (request.pareto) {
    in.Add("pareto",
           "true; must be false with trials: a front compares estimates of one model, so ask for "
           "it in a study without a launcher");
  }
  ReadTrialJob(*stated, trials);
  ReadTrialBudget(*stated, trials.budget);
  ReadRepeats(*stated, trials);
  const std::size_t rows = trials.replay.size();
  const auto asked = static_cast<std::size_t>(std::max(0, trials.budget.trials));
  const std::size_t tried = std::min(rows, asked);
  if (rows * tried * tried > kMaxReplayLikenesses) {
    stated->Add("max_trials", fmt::format("{} of {} rows; rows x trials x trials must be <= {}",
                                          asked, rows, kMaxReplayLikenesses));
  }
}

// Returns the part of a request that a plan's field belongs to: "baseline", or a row of the replay.
std::string PartOf(const std::string& field) {
  const std::size_t row_end = field.find(']');
  return field.substr(0, row_end == std::string::npos ? field.find('.') : row_end + 1);
}

// Adds the mistakes that resolving has found. A part that was not read whole is spared: the
// complaint might be about the default that replaced a mistake.
void AddMistakes(const absl::Status& resolved, const MessageReader& in) {
  std::vector<FieldViolation> found = FieldViolations(resolved);
  std::erase_if(found, [&](const FieldViolation& violation) {
    return in.HasMistakes(PartOf(violation.field));
  });
  for (FieldViolation& violation : found) in.Add(violation.field, std::move(violation.description));
}

// Returns true if the question of a message was read without a mistake.
bool IsQuestionWhole(const MessageReader& in) {
  return !in.HasMistakes("model") && !in.HasMistakes("workload") && !in.HasMistakes("cluster");
}

}  // namespace

Question ReadQuestion(const MessageReader& in, QuestionResolver& resolver) {
  return ReadQuestion(in, ReadPart(in, "model", ReadModel), resolver);
}

Question ReadUncheckedQuestion(const MessageReader& in) {
  return QuestionAbout(in, ReadPart(in, "model", ReadModel));
}

std::optional<CostModelRequest> ReadCostModelRequest(const MessageReader& in) {
  const std::optional<MessageReader> stated = in.Child("cost_model");
  if (!stated.has_value()) return std::nullopt;
  return CostModelRequest{.name = stated->Required("name", stated->Text("name")),
                          .allow_fallback = stated->Bool("allow_fallback").value_or(false)};
}

absl::Status FoundStatus(const std::vector<FieldViolation>& found) {
  std::set<std::string> listed;
  std::vector<FieldViolation> kept;
  for (const FieldViolation& violation : found) {
    if (IsInside(violation.field, listed) || !listed.insert(violation.field).second) continue;
    kept.push_back(violation);
  }
  return kept.empty() ? absl::OkStatus() : InvalidFields(kept);
}

HistoryRow ReadHistoryRow(const MessageReader& in, QuestionResolver& resolver) {
  HistoryRow row;
  row.question = ReadQuestion(in, resolver);
  row.plan = ReadPart(in, "plan", ReadValidPlan).value_or(PlanRequest());
  row.outcome = in.Required("outcome", in.Choice<Outcome>("outcome"));
  ReadMeasured(in, row);
  // Checks the plan only if it and its question were read whole. Otherwise the complaint might be
  // about the default that replaced a mistake.
  if (!in.HasMistakes("")) CheckRan(in, resolver, row);
  return row;
}

std::vector<HistoryRow> ReadHistory(const MessageReader& in, QuestionResolver& resolver) {
  std::vector<HistoryRow> rows;
  for (const MessageReader& row : in.Children("history")) {
    rows.push_back(ReadHistoryRow(row, resolver));
  }
  return rows;
}

absl::StatusOr<ResolvedStudy> FromWire(const v1::TuneRequest& request, const Knowledge& knowledge,
                                       std::vector<FieldViolation> already_found) {
  const MessageReader in(request, "", already_found);
  StudyRequest study;
  QuestionResolver resolver(knowledge);
  const absl::StatusOr<ImportedModel> model = ReadModelOrConfig(in);
  study.question =
      ReadQuestion(in, model.ok() ? std::optional(model->model) : std::nullopt, resolver);
  if (model.ok()) study.warnings = model->notes;
  const bool is_question_whole = model.ok() && IsQuestionWhole(in);
  if (const auto baseline = in.Child("baseline")) study.baseline = ReadValidPlan(*baseline);
  ReadSearch(in, study);
  ReadRun(in, knowledge, study);
  study.history = ReadHistory(in, resolver);
  study.history_sequence = in.Int64("history_sequence");
  if (study.history_sequence.value_or(0) < 0) {
    in.Add("history_sequence", fmt::format("{}; must be >= 0", *study.history_sequence));
  }
  ReadTrials(in, study);
  if (!is_question_whole) {
    const absl::Status found = FoundStatus(already_found);
    // If only the model is wrong, the error keeps its own reason, UNKNOWN_MODEL_FAMILY.
    const bool is_model_only = FieldViolations(found) == FieldViolations(model.status());
    return is_model_only && !model.ok() ? model.status() : found;
  }
  absl::StatusOr<ResolvedStudy> resolved = ResolveStudy(std::move(study), resolver);
  AddMistakes(resolved.status(), in);
  // Plans that run as jobs have a command of the user's own.
  if (resolved.ok() && !resolved->request.trials.has_value()) {
    for (FieldViolation& violation : UnrunnableFields(resolved->problem)) {
      in.Add(violation.field, std::move(violation.description));
    }
  }
  RETURN_IF_ERROR(FoundStatus(already_found));
  return resolved;
}

absl::StatusOr<ResolvedCase> FromWire(const v1::EvaluateCase& evaluate_case,
                                      QuestionResolver& resolver,
                                      std::vector<FieldViolation> already_found) {
  for (FieldViolation& mistake : TextMistakes(evaluate_case, "")) {
    already_found.push_back(std::move(mistake));
  }
  const MessageReader in(evaluate_case, "", already_found);
  EvaluateRequest request;
  request.question = ReadQuestion(in, resolver);
  request.plan = ReadPart(in, "plan", ReadValidPlan).value_or(PlanRequest());
  if (!IsQuestionWhole(in)) return FoundStatus(already_found);
  absl::StatusOr<ResolvedCase> resolved = ResolveCase(request, resolver);
  AddMistakes(resolved.status(), in);
  RETURN_IF_ERROR(FoundStatus(already_found));
  return resolved;
}

absl::StatusOr<HistoryRow> FromWire(const v1::HistoryRow& row, const Knowledge& knowledge,
                                    std::vector<FieldViolation> already_found) {
  const MessageReader in(row, "", already_found);
  QuestionResolver resolver(knowledge);
  HistoryRow history_row = ReadHistoryRow(in, resolver);
  RETURN_IF_ERROR(FoundStatus(already_found));
  return history_row;
}

absl::StatusOr<std::vector<HistoryRow>> HistoryFromWire(const v1::EvaluatePlansRequest& request,
                                                        const Knowledge& knowledge,
                                                        std::vector<FieldViolation> already_found) {
  QuestionResolver resolver(knowledge);
  std::vector<HistoryRow> rows = ReadHistory(MessageReader(request, "", already_found), resolver);
  RETURN_IF_ERROR(FoundStatus(already_found));
  return rows;
}

}  // namespace meshwright
