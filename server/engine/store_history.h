#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "server/engine/study_codec.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

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

// The number of rows to learn from is limited, because the model prices each: all of them take
// about a tenth of a second. The times and memory of 128 rows count
// (estimator/learning/run_residuals.cc), and all failures.
inline constexpr int kMaxStoreRows = 1000;

// The number of rows to read in order to find these among rows that are left out.
inline constexpr int kMaxStoreRowsRead = 5000;

}  // namespace meshwright
