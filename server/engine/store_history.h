#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "search_space/spec/chip.h"
#include "server/engine/engine_options.h"
#include "server/engine/measured_rows.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The number of rows to learn from is limited, because the model prices each: all of them take
// about a tenth of a second. The times and memory of 128 rows count
// (estimator/learning/run_residuals.cc), and all failures.
inline constexpr int kMaxStoreRows = 1000;

// The number of rows to read in order to find these among rows that are left out.
inline constexpr int kMaxStoreRowsRead = 5000;

// Returns the measurements in the store, up to a number, that may calibrate the question's answer.
// These are the ones on its chip under its framework: those of its own job first and then the
// newest, at most kMaxStoreRows in total. Measurements from a table that stands in for a cluster
// are excluded, and so are those that were retracted by that number. Measurements never change and
// retractions are numbered like them, so the same number gives the same rows at any time. A
// warning counts the measurements that are left out because nothing can be learnt from them
// (MeasuredRows). Another warning tells of drift of the chip.
absl::StatusOr<StoreHistory> ReadStoreHistory(const Recorder& recorder, const Problem& problem,
                                              const Knowledge& knowledge, const StudyCodec& codec,
                                              std::int64_t up_to_sequence);

// The parts of ReadStoreHistory, for HistoryMemory, which keeps what it has read.

// A measurement that was read, and the row that can be learnt from.
struct ReadMeasurement {
  std::int64_t sequence = 0;
  std::string id = {};
  std::string job_fingerprint = {};
  std::string chip_fingerprint = {};
  std::shared_ptr<const HistoryRow> row = {};  // null: nothing is learnt from it
  absl::Status refusal = {};                   // says why
};
absl::StatusOr<ReadMeasurement> ReadRow(MeasuredRows& rows, const MeasurementRecord& measurement);

// Returns the filter of the measurements on the problem's chip under its framework, up to a number.
MeasurementFilter HistoryFilterOf(const Problem& problem, std::int64_t up_to_sequence);

// Gathers the rows of an answer about a chip: those of its own job first and then the newest.
class HistoryGatherer {
 public:
  explicit HistoryGatherer(const ChipSpec& chip);
  // Returns true if no further row would count.
  [[nodiscard]] bool IsFull() const;
  // Adds a measurement, unless it is full or has it already.
  void Add(const ReadMeasurement& measurement);
  StoreHistory Take();

 private:
  const std::string chip_;
  const std::string chip_fingerprint_;
  StoreHistory history_;
  int other_figures_count_ = 0;
  int left_out_count_ = 0;
  std::string first_left_out_;
  absl::Status why_;
  std::unordered_set<std::int64_t> seen_;
};

}  // namespace meshwright
