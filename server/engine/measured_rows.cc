#include "server/engine/measured_rows.h"

#include <fmt/format.h>

#include <utility>

#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/run_limits.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/resolved_run.h"

namespace meshwright {

absl::StatusOr<MeasuredRow> MeasuredRows::Read(const MeasurementRecord& measurement) {
  ASSIGN_OR_RETURN(const StoredQuestion* stored, Stored(measurement.question.digest));
  absl::StatusOr<HistoryRow> row = RowOf(measurement, *stored);
  if (!row.ok()) return MeasuredRow{.refusal = row.status()};
  return MeasuredRow{.row = *std::move(row)};
}

absl::StatusOr<HistoryRow> MeasuredRows::RowOf(const MeasurementRecord& measurement,
                                               const StoredQuestion& stored) {
  RETURN_IF_ERROR(stored.refusal);
  const std::optional<ParallelPlan> plan = ParsePlanKey(measurement.plan_key);
  if (!plan.has_value()) {
    return absl::DataLossError(fmt::format("plan = {}; cannot be read", measurement.plan_key));
  }
  if (measurement.step_time.has_value()) {
    const auto mistake = StepTimeMistake(*measurement.step_time, stored.floor);
    if (mistake.has_value()) return absl::OutOfRangeError("step_time_seconds = " + *mistake);
  }
  ASSIGN_OR_RETURN(ResolvedPlan resolved, ResolvePlan(StatedPlan(*plan), *stored.problem, "plan"));
  return HistoryRow{.question = stored.question,
                    .plan = StatedPlan(*plan),
                    .outcome = measurement.outcome,
                    .step_time = measurement.step_time,
                    .peak_memory = measurement.peak_memory,
                    .measurement_id = measurement.id,
                    .resolved = ResolvedJob{.problem = ProblemOfPlan(stored.problem, resolved.plan),
                                            .plan = std::move(resolved.plan)}};
}

absl::StatusOr<const StoredQuestion*> MeasuredRows::Stored(const std::string& digest) {
  const auto known = questions_.find(digest);
  if (known != questions_.end()) return &known->second;
  ASSIGN_OR_RETURN(const QuestionRecord record, recorder_.GetQuestion(digest));
  return &questions_.emplace(digest, QuestionOf(record)).first->second;
}

StoredQuestion MeasuredRows::QuestionOf(const QuestionRecord& record) const {
  absl::StatusOr<Question> question = codec_.decode_question(record.question);
  if (!question.ok()) return {.refusal = question.status()};
  absl::StatusOr<Problem> problem = ResolveProblem(*question, knowledge_);
  if (!problem.ok()) return {.refusal = problem.status()};
  const Seconds floor = LeastStep(*problem);
  return {.question = *std::move(question),
          .problem = std::make_shared<const Problem>(*std::move(problem)),
          .floor = floor};
}

}  // namespace meshwright
