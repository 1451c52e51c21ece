#include "server/engine/job_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "estimator/model/analytic_model.h"
#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/engine/drift.h"
#include "server/engine/measurement.h"
#include "server/engine/store_history.h"
#include "server/engine/study_id.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {
namespace {

// A question that reports are about, and what the store had measured that it can learn from.
struct ReportedQuestion {
  Question question = {};
  Problem problem = {};
  std::vector<HistoryRow> history = {};
  LearntCalibration learnt = {};
  QuestionRecord record = {};
};

// The place of each report's question among the distinct ones.
struct ReportedQuestions {
  std::vector<ReportedQuestion> questions = {};
  std::vector<std::size_t> of_report = {};
};

absl::StatusOr<ReportedQuestions> DistinctQuestions(std::span<const JobReport> reports,
                                                    const Knowledge& knowledge,
                                                    const StudyCodec& codec) {
  ReportedQuestions out;
  for (const JobReport& report : reports) {
    const Question& question = report.run.question;
    const auto found = std::ranges::find(out.questions, question, &ReportedQuestion::question);
    out.of_report.push_back(static_cast<std::size_t>(found - out.questions.begin()));
    if (found != out.questions.end()) continue;
    ASSIGN_OR_RETURN(Problem problem, ResolveProblem(question, knowledge));
    QuestionRecord record = QuestionRecordOf(question, problem, codec);
    out.questions.push_back(
        {.question = question, .problem = std::move(problem), .record = std::move(record)});
  }
  return out;
}

absl::Status ReadHistory(const Recorder& store, const Knowledge& knowledge, const StudyCodec& codec,
                         std::int64_t last_sequence, ReportedQuestion& question) {
  ASSIGN_OR_RETURN(StoreHistory history,
                   ReadStoreHistory(store, question.problem, knowledge, codec, last_sequence));
  question.history = std::move(history.rows);
  return absl::OkStatus();
}

absl::Status Learn(const Knowledge& knowledge, std::int64_t last_sequence,
                   ReportedQuestion& question) {
  StudyRequest request = {.question = question.question, .history = std::move(question.history)};
  request.history_sequence = last_sequence;
  ASSIGN_OR_RETURN(question.learnt, LearnCalibration(request, question.problem, knowledge));
  return absl::OkStatus();
}

ExpectedFigures ExpectedOf(const ParallelPlan& plan, const ReportedQuestion& question) {
  AnalyticModel model(ViewOf(question.problem), question.learnt.calibration);
  const Estimate estimate = RankPlan(plan, question.problem, model).estimate;
  return {.step_time = estimate.step_time,
          .low = estimate.step_time_low,
          .high = estimate.step_time_high,
          .peak_memory = estimate.peak_memory,
          .calibration_id = question.learnt.report ? question.learnt.report->id : std::string()};
}

absl::StatusOr<MeasurementRecord> MeasurementOf(const JobReport& report,
                                                const ReportedQuestion& question,
                                                const StudyCodec& codec, std::int64_t time_ms) {
  ASSIGN_OR_RETURN(const ResolvedPlan resolved,
                   ResolvePlan(report.run.plan, question.problem, "plan"));
  const PlanKey key = MakePlanKey(resolved.plan);
  MeasurementRecord measurement = {.source = MeasurementSource::kJobReport,
                                   .question = question.record,
                                   .study_id = report.study_id,
                                   .plan_key = key.text,
                                   .plan_digest = key.digest,
                                   .plan = codec.encode_plan(resolved.plan),
                                   .outcome = report.run.outcome,
                                   .step_time = report.run.step_time,
                                   .peak_memory = report.run.peak_memory,
                                   .expected = ExpectedOf(resolved.plan, question),
                                   .time_ms = time_ms,
                                   .request_id = report.request_id,
                                   .request_hash = report.request_hash,
                                   .job_name = report.job_name,
                                   .note = report.note};
  measurement.id = MeasurementId(measurement, NewStudyId());
  return measurement;
}

absl::Status Insert(Recorder& store, std::span<const MeasurementRecord> measurements,
                    std::span<const CalibrationRecord> calibrations,
                    std::vector<KeptReport>& kept) {
  ASSIGN_OR_RETURN(std::vector<InsertedMeasurement> inserted,
                   store.InsertMeasurements(measurements));
  // A report that was sent before changes nothing.
  if (std::ranges::any_of(inserted, &InsertedMeasurement::is_new)) {
    for (const CalibrationRecord& calibration : calibrations) {
      RETURN_IF_ERROR(store.InsertCalibration(calibration));
    }
  }
  for (InsertedMeasurement& one : inserted) {
    kept.push_back({.measurement = std::move(one.measurement)});
  }
  std::set<std::pair<std::string, std::string>> warned;
  for (auto report = kept.rbegin(); report != kept.rend(); ++report) {
    const QuestionRecord& question = report->measurement.question;
    if (!warned.emplace(question.chip, question.framework).second) continue;
    ASSIGN_OR_RETURN(
        std::optional<std::string> warning,
        DriftWarning(store, question.chip, question.framework, report->measurement.sequence));
    if (warning.has_value()) report->warnings.push_back(*std::move(warning));
  }
  return absl::OkStatus();
}

// Learns what each question's answer leans on at this moment, one after the other and while others
// have the store, because it takes a tenth of a second a question.
absl::StatusOr<std::vector<CalibrationRecord>> LearnAll(ReportedQuestions& reported,
                                                        const StoreAccess& store,
                                                        const Knowledge& knowledge,
                                                        const StudyCodec& codec,
                                                        std::int64_t time_ms) {
  ASSIGN_OR_RETURN(const std::int64_t last_sequence, ReadFrom(store, [](const Recorder& open) {
                     return open.LastMeasurementSequence();
                   }));
  std::vector<CalibrationRecord> calibrations;
  for (ReportedQuestion& question : reported.questions) {
    RETURN_IF_ERROR(store.read([&](const Recorder& open) {
      return ReadHistory(open, knowledge, codec, last_sequence, question);
    }));
    RETURN_IF_ERROR(Learn(knowledge, last_sequence, question));
    if (!question.learnt.report.has_value()) continue;
    calibrations.push_back(CalibrationRecordOf(*question.learnt.report, codec, time_ms));
  }
  return calibrations;
}

}  // namespace

absl::StatusOr<std::vector<KeptReport>> KeepJobReports(std::span<const JobReport> reports,
                                                       const StoreAccess& store,
                                                       const Knowledge& knowledge,
                                                       const StudyCodec& codec,
                                                       std::int64_t time_ms) {
  ASSIGN_OR_RETURN(ReportedQuestions reported, DistinctQuestions(reports, knowledge, codec));
  if (reported.questions.size() > kMostReportedQuestions) {
    return InvalidFields(
        {{.field = "requests",
          .description = fmt::format("{} different questions; at most {} in one "
                                     "batch",
                                     reported.questions.size(), kMostReportedQuestions)}});
  }
  ASSIGN_OR_RETURN(const std::vector<CalibrationRecord> calibrations,
                   LearnAll(reported, store, knowledge, codec, time_ms));
  std::vector<MeasurementRecord> measurements;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const ReportedQuestion& question = reported.questions[reported.of_report[i]];
    ASSIGN_OR_RETURN(MeasurementRecord measurement,
                     MeasurementOf(reports[i], question, codec, time_ms));
    measurements.push_back(std::move(measurement));
  }
  std::vector<KeptReport> kept;
  RETURN_IF_ERROR(
      store.write([&](Recorder& open) { return Insert(open, measurements, calibrations, kept); }));
  return kept;
}

}  // namespace meshwright
