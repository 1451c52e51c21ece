#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "server/engine/study_codec.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The store's measurements, up to a number, that the question's answer may be calibrated by: those
// on its chip under its framework, of its own job first and then the newest, kMostStoreRows
// altogether. What a measured table that stands in for a cluster has given is not among them.
// Measurements are never changed, so that the same number gives the same rows at any time. One that
// this program cannot read, whose plan or question today's facts refuse, or that claims more than
// the devices' peak allows is left out, which a warning says; another warning is of the drift of
// the chip.
absl::StatusOr<StoreHistory> ReadStoreHistory(const Recorder& recorder, const Problem& problem,
                                              const Knowledge& knowledge, const StudyCodec& codec,
                                              std::int64_t up_to_sequence);

// The model prices each row: so many take about a tenth of a second. Of times and memory, 128 are
// learnt from (estimator/learning/run_residuals.cc); failures count all.
inline constexpr int kMostStoreRows = 1000;

// So many are looked at, to find these among rows that are left out.
inline constexpr int kMostStoreRowsRead = 5000;

}  // namespace meshwright
