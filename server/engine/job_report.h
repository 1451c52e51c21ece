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

// The result of a job that was really launched.
struct JobReport {
  HistoryRow run = {};
  std::optional<std::string> study_id = {};    // whose plan was launched
  std::optional<std::string> request_id = {};  // makes keeping it idempotent
  std::string request_hash = {};               // of the whole request
  std::string job_name = {};
  std::string note = {};
};

struct KeptReport {
  MeasurementRecord measurement = {};  // as it was stored first
  // Warnings of drift, as it stood with this report; if several reports are on a chip under a
  // framework, only the last of them has it.
  std::vector<std::string> warnings = {};
};

// The most different questions in one batch, each of which is calibrated anew.
inline constexpr std::size_t kMostReportedQuestions = 50;

// Keeps reports beside what is expected of their plans at this moment, by what the store had
// measured before them: all or none, in their order. The reports are valid (job_report_wire.cc).
// Reads no clock: `time_ms` is now. INVALID_ARGUMENT if they ask more than kMostReportedQuestions;
// other errors are the store's: REQUEST_ID_REUSED for a request_id that made another report.
absl::StatusOr<std::vector<KeptReport>> KeepJobReports(std::span<const JobReport> reports,
                                                       const StoreAccess& store,
                                                       const Knowledge& knowledge,
                                                       const StudyCodec& codec,
                                                       std::int64_t time_ms);

}  // namespace meshwright
