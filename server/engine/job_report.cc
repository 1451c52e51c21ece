#include "server/engine/job_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "estimator/model/analytic_model.h"
#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/engine/drift.h"
#include "server/engine/measured_rows.h"
#include "server/engine/measurement.h"
#include "server/engine/store_history.h"
#include "server/engine/study_id.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {
namespace {

// A question that reports are about.
struct ReportedQuestion {
  Question stated = {};
  QuestionRecord record = {};
  std::shared_ptr<const Problem> problem = {};
  LearntCalibration learnt = {};  // from what the store has before the reports
};

// The distinct questions of a batch, and the index among them of each report's question.
struct ReportedQuestions {
  std::vector<ReportedQuestion> questions = {};
  std::vector<std::size_t> of_report = {};
};

ReportedQuestions DistinctQuestions(std::span<const JobReport> reports, const StudyCodec& codec) {
  ReportedQuestions out;
  for (const JobReport& report : reports) {
    const Question& question = report.run.question;
    const auto found = std::ranges::find(out.questions, question, &ReportedQuestion::stated);
    out.of_report.push_back(static_cast<std::size_t>(found - out.questions.begin()));
    if (found != out.questions.end()) continue;
    const std::shared_ptr<const Problem>& problem = report.run.resolved.problem;
    out.questions.push_back({.stated = question,
                             .record = QuestionRecordOf(question, *problem, codec),
                             .problem = problem});
  }
  return out;
}

ExpectedFigures ExpectedOf(const ParallelPlan& plan, const ReportedQuestion& question) {
  AnalyticModel model(ToEstimatorProblem(*question.problem), question.learnt.calibration);
  const Estimate estimate = RankPlan(plan, *question.problem, model).estimate;
  return {.step_time = estimate.step_time,
          .low = estimate.step_time_low,
          .high = estimate.step_time_high,
          .peak_memory = estimate.peak_memory,
          .calibration_id = question.learnt.report ? question.learnt.report->id : std::string()};
}

MeasurementRecord MeasurementOf(const JobReport& report, const ReportedQuestion& question,
                                const StudyCodec& codec, std::int64_t time_ms) {
  const ParallelPlan& plan = report.run.resolved.plan;
  const PlanKey key = MakePlanKey(plan);
  MeasurementRecord measurement = {.source = MeasurementSource::kJobReport,
                                   .question = question.record,
                                   .study_id = report.study_id,
                                   .plan_key = key.text,
                                   .plan_digest = key.digest,
                                   .plan = codec.encode_plan(plan),
                                   .outcome = report.run.outcome,
                                   .step_time = report.run.step_time,
                                   .peak_memory = report.run.peak_memory,
                                   .expected = ExpectedOf(plan, question),
                                   .time_ms = time_ms,
                                   .request_id = report.request_id,
                                   .request_hash = report.request_hash,
                                   .job_name = report.job_name,
                                   .note = report.note};
  measurement.id = MeasurementId(measurement, NewStudyId());
  return measurement;
}

bool IsUnlikely(const MeasurementRecord& measurement) {
  const std::optional<Seconds>& expected = measurement.expected.step_time;
  return measurement.outcome == Outcome::kOk && measurement.step_time.has_value() &&
         expected.has_value() && *measurement.step_time > kUnlikelyStepRatio * *expected;
}

absl::StatusOr<bool> IsStored(const MeasurementRecord& measurement, const StoreAccess& store) {
  if (!measurement.request_id.has_value()) return false;
  ASSIGN_OR_RETURN(const auto stored, ReadFrom(store, [&](const Recorder& open) {
                     return open.FindMeasurementOfRequest(*measurement.request_id);
                   }));
  return stored.has_value();
}

// Asks about the reports whose steps are implausibly long, unless somebody confirmed them.
absl::Status CheckStepTimes(std::span<const JobReport> reports,
                            std::span<const MeasurementRecord> measurements,
                            const StoreAccess& store) {
  std::vector<FieldViolation> unlikely;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const MeasurementRecord& measurement = measurements[i];
    if (reports[i].is_confirmed || !IsUnlikely(measurement)) continue;
    ASSIGN_OR_RETURN(const bool is_stored, IsStored(measurement, store));
    if (is_stored) continue;
    unlikely.push_back(
        {.field = reports[i].step_time_field,
         .description = fmt::format(
             "{}; the plan is expected to take {:.3g} seconds, and more than {} times that is "
             "unlikely: is the value in seconds? If it is right, state is_confirmed (--confirm)",
             measurement.step_time->count(), measurement.expected.step_time->count(),
             kUnlikelyStepRatio)});
  }
  if (unlikely.empty()) return absl::OkStatus();
  return WithReason(InvalidFields(unlikely), "UNLIKELY_STEP_TIME");
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
    kept.push_back({.measurement = std::move(one.measurement), .is_new = one.is_new});
  }
  return absl::OkStatus();
}

// Puts the drift of each chip and framework among the reports with the last report of it.
absl::Status WarnOfDrift(MeasuredRows& rows, std::vector<KeptReport>& kept) {
  std::set<std::pair<std::string, std::string>> warned;
  for (auto report = kept.rbegin(); report != kept.rend(); ++report) {
    const QuestionRecord& question = report->measurement.question;
    if (!warned.emplace(question.chip, question.framework).second) continue;
    ASSIGN_OR_RETURN(
        std::optional<std::string> warning,
        DriftWarning(rows, question.chip, question.framework, report->measurement.sequence));
    if (warning.has_value()) report->warnings.push_back(*std::move(warning));
  }
  return absl::OkStatus();
}

// Returns the measurements of a store as of now.
absl::StatusOr<HistorySource> HistoryOf(const StoreAccess& store, const Knowledge& knowledge,
                                        const StudyCodec& codec) {
  HistorySource source;
  ASSIGN_OR_RETURN(source.sequence, ReadFrom(store, [](const Recorder& open) {
                     return open.LastMeasurementSequence();
                   }));
  source.read = [&store, &knowledge, &codec, sequence = source.sequence](const Problem& problem) {
    return ReadFrom(store, [&](const Recorder& open) {
      return ReadStoreHistory(open, problem, knowledge, codec, sequence);
    });
  };
  return source;
}

// Calibrates each question by what the store has at this moment. It handles one question after the
// other and lets others use the store meanwhile, because each may take a tenth of a second.
absl::Status LearnAll(const HistorySource& source, const Knowledge& knowledge,
                      std::span<ReportedQuestion> questions) {
  for (ReportedQuestion& question : questions) {
    ASSIGN_OR_RETURN(question.learnt, LearnOf(*question.problem, {}, knowledge, source));
  }
  return absl::OkStatus();
}

std::vector<CalibrationRecord> CalibrationsOf(std::span<const ReportedQuestion> questions,
                                              const StudyCodec& codec, std::int64_t time_ms) {
  std::vector<CalibrationRecord> calibrations;
  for (const ReportedQuestion& question : questions) {
    if (!question.learnt.report.has_value()) continue;
    calibrations.push_back(CalibrationRecordOf(*question.learnt.report, codec, time_ms));
  }
  return calibrations;
}

}  // namespace

absl::StatusOr<std::vector<KeptReport>> KeepJobReports(std::span<const JobReport> reports,
                                                       const ReportedStore& reported_to,
                                                       const Knowledge& knowledge,
                                                       const StudyCodec& codec,
                                                       std::int64_t time_ms) {
  const StoreAccess& store = reported_to.store;
  ReportedQuestions reported = DistinctQuestions(reports, codec);
  if (reported.questions.size() > kMaxReportedQuestions) {
    return InvalidFields(
        {{.field = "requests",
          .description = fmt::format("{} different questions; at most {} in one "
                                     "batch",
                                     reported.questions.size(), kMaxReportedQuestions)}});
  }
  ASSIGN_OR_RETURN(const HistorySource source, reported_to.history
                                                   ? reported_to.history()
                                                   : HistoryOf(store, knowledge, codec));
  RETURN_IF_ERROR(LearnAll(source, knowledge, reported.questions));
  const std::vector<CalibrationRecord> calibrations =
      CalibrationsOf(reported.questions, codec, time_ms);
  std::vector<MeasurementRecord> measurements;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const ReportedQuestion& question = reported.questions[reported.of_report[i]];
    measurements.push_back(MeasurementOf(reports[i], question, codec, time_ms));
  }
  RETURN_IF_ERROR(CheckStepTimes(reports, measurements, store));
  std::vector<KeptReport> kept;
  RETURN_IF_ERROR(store.write([&](Recorder& open) -> absl::Status {
    if (absl::Status status = Insert(open, measurements, calibrations, kept); !status.ok()) {
      return status;
    }
    MeasuredRows rows(open, knowledge, codec);
    return WarnOfDrift(rows, kept);
  }));
  for (const KeptReport& report : kept) {
    if (report.is_new && reported_to.on_measurement) reported_to.on_measurement(report.measurement);
  }
  return kept;
}

}  // namespace meshwright
