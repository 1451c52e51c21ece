#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/store_access.h"
#include "server/engine/engine_options.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The result of a job that somebody ran.
struct JobReport {
  HistoryRow run = {};
  std::optional<std::string> study_id = {};    // the study whose plan was run
  std::optional<std::string> request_id = {};  // makes keeping the report idempotent
  std::string request_hash = {};               // hash of what the request reports
  std::string job_name = {};
  std::string note = {};
  std::string step_time_field = {};  // the step time's path in the request, for errors
  bool is_confirmed = false;         // the step time is right, however far from the expected one
};

struct KeptReport {
  MeasurementRecord measurement = {};  // as it was first stored
  bool is_new = true;                  // false: the same request stored it before
  // Warnings of drift as of this report. If several reports are about the same chip and framework,
  // only the last of them has the warning.
  std::vector<std::string> warnings = {};
};

// The store that reports are kept in.
struct ReportedStore {
  StoreAccess store = {};
  // Returns the measurements as of now; null: they are read from the store.
  std::function<absl::StatusOr<HistorySource>()> history = {};
  // EngineHooks.on_measurement.
  std::function<void(const MeasurementRecord&)> on_measurement = {};
};

// The number of different questions in one batch is limited, because each is calibrated anew.
inline constexpr std::size_t kMaxReportedQuestions = 50;

// A report whose step takes more than this many times the expected one is asked about. A time in
// milliseconds that was stated as seconds is a thousand times too long, and a job on a broken
// network takes ten times as long or so. The limit is the geometric mean of the two.
inline constexpr double kUnlikelyStepRatio = 100;

// Keeps reports together with what is expected of their plans, based on what the store had measured
// before them. Keeps all in their order, or none. The reports are valid (job_report_wire.cc).
// `time_ms` is the current time, so that no clock is read here. Returns INVALID_ARGUMENT for more
// than kMaxReportedQuestions questions, and with reason UNLIKELY_STEP_TIME, naming each, for step
// times beyond kUnlikelyStepRatio that nobody confirmed. A report that its request_id stored before
// is not asked about. Other errors are the store's: REQUEST_ID_REUSED for a request_id that another
// report used.
absl::StatusOr<std::vector<KeptReport>> KeepJobReports(std::span<const JobReport> reports,
                                                       const ReportedStore& reported_to,
                                                       const Knowledge& knowledge,
                                                       const StudyCodec& codec,
                                                       std::int64_t time_ms);

}  // namespace meshwright
