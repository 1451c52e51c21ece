#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/store_access.h"
#include "server/engine/study_codec.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The result of a job that somebody ran.
struct JobReport {
  HistoryRow run = {};
  std::optional<std::string> study_id = {};    // the study whose plan was run
  std::optional<std::string> request_id = {};  // makes keeping the report idempotent
  std::string request_hash = {};               // hash of the whole request
  std::string job_name = {};
  std::string note = {};
};

struct KeptReport {
  MeasurementRecord measurement = {};  // as it was first stored
  // Warnings of drift as of this report. If several reports are about the same chip and framework,
  // only the last of them has the warning.
  std::vector<std::string> warnings = {};
};

// The number of different questions in one batch is limited, because each is calibrated anew.
inline constexpr std::size_t kMaxReportedQuestions = 50;

// Keeps reports together with what is expected of their plans, based on what the store had measured
// before them. Keeps all in their order, or none. The reports are valid (job_report_wire.cc).
// `time_ms` is the current time, so that no clock is read here. Returns INVALID_ARGUMENT for more
// than kMaxReportedQuestions questions. Other errors are the store's: REQUEST_ID_REUSED for a
// request_id that another report used.
absl::StatusOr<std::vector<KeptReport>> KeepJobReports(std::span<const JobReport> reports,
                                                       const StoreAccess& store,
                                                       const Knowledge& knowledge,
                                                       const StudyCodec& codec,
                                                       std::int64_t time_ms);

}  // namespace meshwright
